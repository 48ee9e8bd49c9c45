"""What the value inferences of all files share while they answer: the queries in progress, and how far one may look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.model import bounds
from torchperf_lint.model.project.query_cache import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.syntax.index import FunctionInfo

_R = TypeVar("_R")

BEYOND = bounds.MOST_CALLS_UP + 1
"""The reach of a result that would have needed callers beyond the limit."""


class Budget:
    """The statements that the calls of one query have run."""

    __slots__ = ("statements",)

    def __init__(self) -> None:
        self.statements = 0


class Context(NamedTuple):
    """How far the current query may look."""

    calls_up: int
    """How many callers of callers it may still ask for parameters."""
    calls: tuple[tuple[FunctionInfo, int], ...]
    """The functions whose calls are being followed, outermost first, and how many queries were in progress then."""
    origin: int
    """The depth of the query that these calls are counted from."""
    budget: Budget


class Inquiry(Progress):
    """One per program. The current context is frozen: a query that looks less far, or further, has one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.context = Context(bounds.MOST_CALLS_UP, (), 0, Budget())
        self.reach = 0
        """How many calls up the current query has looked."""

    def within(self, context: Context, answer: Callable[[], _R]) -> _R:
        """A result in that context."""
        before, self.context = self.context, context
        try:
            return answer()
        finally:
            self.context = before

    def origin(self) -> int:
        """The depth of the query that the bounds on calls count from."""
        return self.context.origin

    def situation(self) -> Context:
        """The current context."""
        return self.context

    def again(self, situation: Any, compute: Callable[[], _R]) -> _R:
        """A result in an earlier context, counting calls and statements anew."""
        before = self.reach
        try:
            context = Context(situation.calls_up, (), max(self.depth - 1, 0), Budget())
            return self.within(context, compute)
        finally:
            self.reach = before

    def in_general(self, answer: Callable[[], _R]) -> _R:
        """A result that does not depend on the calls followed so far."""
        origin = max(self.depth - 1, 0)
        return self.within(Context(self.context.calls_up, (), origin, Budget()), answer)

    def alone(self, answer: Callable[[], _R]) -> _R:
        """A result that looks at no function's callers."""
        before = self.reach
        try:
            return self.within(self.context._replace(calls_up=0), answer)
        finally:
            self.reach = before

    def afresh(self, answer: Callable[[], _R]) -> _R:
        """A result that is the same whoever asks."""
        before = self.reach
        try:
            whole = self.context._replace(calls_up=bounds.MOST_CALLS_UP)
            return self.within(whole, lambda: self.in_general(answer))
        finally:
            self.reach = before

    def one_call_up(self, answer: Callable[[], _R]) -> _R | None:
        """A result from a function's callers; None beyond the limit of calls up."""
        calls_up = self.context.calls_up
        if calls_up == 0:
            self.reach = BEYOND
            return None
        before, self.reach = self.reach, 0
        try:
            return self.within(self.context._replace(calls_up=calls_up - 1), answer)
        finally:
            self.reach = max(before, self.reach + 1)
