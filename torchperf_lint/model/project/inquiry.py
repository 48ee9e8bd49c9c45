"""What the value inferences of all files share while they answer: the queries in progress, and how far one may look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_lint.model import bounds
from torchperf_lint.model.project.query_cache import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

_R = TypeVar("_R")

BEYOND = max(bounds.MOST_CALLS_UP, bounds.MOST_CALLS_DEEP) + 1
"""The reach of a result that would have needed calls beyond the limit."""


class Limit:
    """How many calls the current query may still look at, one from another, and how many it has looked at.

    `left` is frozen for a query: one that looks less far, or further, has a limit of its own. `reach` grows with what
    the query finds.
    """

    __slots__ = ("left", "most", "reach")

    def __init__(self, most: int) -> None:
        self.most = self.left = most
        self.reach = 0

    def one_call(self, answer: Callable[[], _R]) -> _R | None:
        """A result from one call further; None beyond the limit."""
        if self.left == 0:
            self.reach = BEYOND
            return None
        before, self.reach = self.reach, 0
        self.left -= 1
        try:
            return answer()
        finally:
            self.left += 1
            self.reach = max(before, self.reach + 1)

    def set_to(self, left: int, answer: Callable[[], _R]) -> _R:
        """A result that is the same whatever is left of the limit, and counts for no reach."""
        before = self.left, self.reach
        self.left = left
        try:
            return answer()
        finally:
            self.left, self.reach = before


class Inquiry(Progress):
    """One per program: the limits of the current query.

    `up` counts callers of callers, which are asked for parameters, and `down` the calls that are followed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.up = Limit(bounds.MOST_CALLS_UP)
        self.down = Limit(bounds.MOST_CALLS_DEEP)

    def situation(self) -> tuple[int, int]:
        """What is left of both limits."""
        return self.up.left, self.down.left

    def again(self, situation: Any, compute: Callable[[], _R]) -> _R:
        """A result with what was left of the limits earlier."""
        up, down = situation
        return self.up.set_to(up, lambda: self.down.set_to(down, compute))

    def in_general(self, answer: Callable[[], _R]) -> _R:
        """A result that does not depend on the calls followed so far."""
        return self.down.set_to(self.down.most, answer)

    def alone(self, answer: Callable[[], _R]) -> _R:
        """A result that looks at no function's callers."""
        return self.up.set_to(0, answer)

    def afresh(self, answer: Callable[[], _R]) -> _R:
        """A result that is the same whoever asks."""
        return self.up.set_to(self.up.most, lambda: self.in_general(answer))

    def one_call_up(self, answer: Callable[[], _R]) -> _R | None:
        """A result from a function's callers; None beyond the limit of calls up."""
        return self.up.one_call(answer)
