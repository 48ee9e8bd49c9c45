"""Memoized queries that may depend on each other in cycles; results do not depend on the order of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_lint.model.project.dependencies import node_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.project.dependencies import DependencyRecorder, Node

_R = TypeVar("_R")

MOST_WAITING = 30
"""How many queries may be nested; the next one returns its default."""

_NEVER = 1 << 30


class QueryCache:
    """Memoized queries that may depend on each other, sometimes in a cycle.

    No result may depend on which query came first. A result that depends on a query in progress is provisional: it
    is dropped once that query ends. The outer query's result is stored, but is recomputed while another query of
    its cycle is in progress.
    """

    def __init__(self, recorder: DependencyRecorder) -> None:
        self._recorder = recorder
        self._numbers: dict[object, int] = {}
        self._last_number = 0
        self._known: dict[int, tuple[Any, frozenset[int], Node]] = {}  # result, its cycle's queries, its dependencies
        self._provisional: dict[int, tuple[Any, int, Node]] = {}
        self._in_progress: dict[int, int] = {}
        self._lowest = _NEVER
        self.reaches: dict[tuple[object, ...], tuple[int, int]] = {}  # query -> its limit of calls up, and its reach
        recorder.add(self)

    def forget(self, is_dropped: Callable[[Node], bool]) -> None:
        """Drop the results with such dependencies; to be called while no query is in progress."""
        dropped = {key for key, known in self._known.items() if is_dropped(known[2])}
        for key in dropped:
            del self._known[key]
        if dropped:
            self.reaches = {asked: each for asked, each in self.reaches.items() if self._holds((*asked, each[0]))}
        # The other results identify the queries of their cycles by number.
        for known in self._known.values():
            dropped -= known[1]
        if dropped:
            self._numbers = {question: key for question, key in self._numbers.items() if key not in dropped}

    @property
    def depth(self) -> int:
        """How many queries are in progress."""
        return len(self._in_progress)

    def mark_provisional(self, depth: int) -> None:
        """Mark the results in progress as provisional until the query at that depth ends."""
        self._lowest = min(self._lowest, depth)

    def has(self, question: object) -> bool:
        """Whether the result is stored and holds whatever is in progress."""
        known = self._known.get(self._numbers.get(question, -1))
        return known is not None and not known[1]

    def _holds(self, question: object) -> bool:
        return self._numbers.get(question, -1) in self._known

    def ask(self, question: object, compute: Callable[[], _R], default: Callable[[], _R]) -> _R:
        """The stored result, or that of `compute`; `default()` if the query is in progress already."""
        # Queries contain whole Values, which are slow to hash: numbers identify them.
        key = self._numbers.get(question)
        if key is None:
            key = self._numbers[question] = self._last_number = self._last_number + 1
        known = self._known.get(key)
        recorder = self._recorder
        if known is not None and (not known[1] or known[1].isdisjoint(self._in_progress)):
            recorder.here.add(known[2])
            return known[0]  # type: ignore[no-any-return]
        provisional = self._provisional.get(key)
        if provisional is not None:
            self.mark_provisional(provisional[1])
            recorder.here.add(provisional[2])
            return provisional[0]  # type: ignore[no-any-return]
        position = len(self._in_progress)
        if key in self._in_progress or position >= MOST_WAITING:
            self.mark_provisional(self._in_progress.get(key, 0))
            return default()
        self._in_progress[key] = position
        before, self._lowest = self._lowest, _NEVER
        earlier = len(self._provisional)
        outer, recorder.here = recorder.here, set()
        try:
            answer = compute()
            lowest = self._lowest
            own = node_of(recorder.here)
            outer.add(own)
        except BaseException:
            outer |= recorder.here
            raise
        finally:
            del self._in_progress[key]
            self._lowest = before
            recorder.here = outer
        if lowest < position:
            self._provisional[key] = (answer, lowest, own)
            self.mark_provisional(lowest)
        else:
            cycle = frozenset(self._provisional.popitem()[0] for _ in range(len(self._provisional) - earlier))
            self._known[key] = (answer, cycle, own)
        return answer
