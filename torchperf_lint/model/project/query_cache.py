"""Memoized queries that may depend on each other in cycles; results do not depend on the order of queries."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.model import bounds
from torchperf_lint.model.project.dependencies import node_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.project.dependencies import DependencyRecorder, Node

_R = TypeVar("_R")

_AGAIN = object()
_NONE = 1 << 30
"""A depth that no query has: nothing in progress is meant."""


class _Provisional(NamedTuple):
    """A result that is not final, because it rests on queries in progress."""

    answer: Any
    cycle: int  # the depth of the outermost query whose result it assumes
    context: int  # the depth of the outermost query from which a bound counts that has cut something off
    node: Node
    cache: QueryCache


class Progress:
    """The queries in progress in all caches that may ask each other.

    A query that asks itself, directly or through others, forms a cycle with them. In the first round it gets its
    default. Then the outermost query of the cycle runs them all again, with the results of the round before, until
    each result is the one that was assumed. All of them are final then.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.open: dict[int, int] = {}  # query -> its depth
        self.provisional: dict[int, _Provisional] = {}
        self.assumed: dict[int, Any] = {}  # query of a cycle -> its result in the round before
        self.used: dict[int, tuple[Any, Any]] = {}  # query of a cycle -> what it was assumed to be, and its default
        self.cycle = self.context = _NONE  # as in `_Provisional`, for the innermost query

    @property
    def depth(self) -> int:
        """How many queries are in progress."""
        return len(self.open)

    def rest_on(self, cycle: int, context: int) -> None:
        """The innermost query uses a provisional result that rests on these."""
        self.cycle, self.context = min(self.cycle, cycle), min(self.context, context)

    def take_since(self, earlier: int) -> list[tuple[int, _Provisional]]:
        """Take away all provisional results but the `earlier` first ones; latest first."""
        return [self.provisional.popitem() for _ in range(len(self.provisional) - earlier)]


class QueryCache:
    """Memoized queries of a file, or of a project, that may depend on each other, sometimes in a cycle.

    No result may depend on which query came first. A result that depends on a query in progress is provisional
    until that query ends.
    """

    def __init__(
        self,
        recorder: DependencyRecorder,
        progress: Progress | None = None,
        is_same: Callable[[Any, Any], bool] = operator.eq,
    ) -> None:
        """`progress` is that of all caches whose queries may ask each other; `is_same` compares two results."""
        self._recorder = recorder
        self._progress = progress or Progress()
        self._is_same = is_same
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[Any, Node]] = {}  # result, its dependencies
        self.reaches: dict[tuple[object, ...], tuple[int, int]] = {}  # query -> its limit of calls up, and its reach
        recorder.add(self)

    def forget(self, is_dropped: Callable[[Node], bool]) -> None:
        """Drop the results with such dependencies; to be called while no query is in progress."""
        dropped = {key for key, known in self._known.items() if is_dropped(known[1])}
        if not dropped:
            return
        for key in dropped:
            del self._known[key]
        self._numbers = {question: key for question, key in self._numbers.items() if key not in dropped}
        self.reaches = {asked: each for asked, each in self.reaches.items() if self.has((*asked, each[0]))}

    @property
    def depth(self) -> int:
        """How many queries are in progress."""
        return self._progress.depth

    def mark_cut_off(self, depth: int) -> None:
        """A bound that counts from the query at that depth has cut off part of what is in progress above it."""
        self._progress.rest_on(_NONE, depth)

    def has(self, question: object) -> bool:
        """Whether the result is stored."""
        return self._numbers.get(question, -1) in self._known

    def ask(self, question: object, compute: Callable[[], _R], default: Callable[[], _R]) -> _R:
        """The stored result, or that of `compute`; while the query is in progress, what is assumed of it."""
        progress, recorder = self._progress, self._recorder
        # Queries contain whole Values, which are slow to hash: numbers identify them.
        key = self._numbers.get(question)
        if key is None:
            key = self._numbers[question] = next(progress.numbers)
        known = self._known.get(key)
        if known is not None:
            recorder.here.add(known[1])
            return known[0]  # type: ignore[no-any-return]
        provisional = progress.provisional.get(key)
        if provisional is not None:
            progress.rest_on(provisional.cycle, provisional.context)
            recorder.here.add(provisional.node)
            return provisional.answer  # type: ignore[no-any-return]
        depth = progress.open.get(key)
        if depth is not None:
            progress.rest_on(depth, _NONE)
            if key not in progress.used:
                first = default()
                progress.used[key] = progress.assumed.get(key, first), first
            return progress.used[key][0]  # type: ignore[no-any-return]
        if progress.depth >= bounds.MOST_QUERIES_DEEP:
            self.mark_cut_off(0)
            return default()
        return self._work_out(key, compute)  # type: ignore[no-any-return]

    def _work_out(self, key: int, compute: Callable[[], Any]) -> Any:
        progress, recorder = self._progress, self._recorder
        depth, earlier = progress.depth, len(progress.provisional)
        before, outer = (progress.cycle, progress.context), recorder.here
        progress.open[key] = depth
        try:
            for rounds in itertools.count():
                progress.cycle = progress.context = _NONE
                recorder.here = set()
                answer = compute()
                cycle, context = progress.cycle, progress.context
                settled = self._settle(key, answer, earlier, rounds) if cycle == depth else answer
                if settled is not _AGAIN:
                    break
        except BaseException:
            progress.take_since(earlier)
            raise
        finally:
            own = node_of(recorder.here)
            outer.add(own)
            del progress.open[key]
            progress.cycle, progress.context = before
            recorder.here = outer
        answer = settled
        # What a bound has cut off depends on the calls that led there from this query: another query finds more.
        inner = [(each, found) for each, found in progress.take_since(earlier) if found.context != depth]
        cycle, context = (each if each < depth else _NONE for each in (cycle, context))
        if cycle == context == _NONE:
            for each, found in inner:
                found.cache._known[each] = found.answer, own
            self._known[key] = answer, own
        else:
            progress.provisional.update(reversed(inner))
            progress.provisional[key] = _Provisional(answer, cycle, context, own, self)
            progress.rest_on(cycle, context)
        return answer

    def _settle(self, key: int, answer: object, earlier: int, rounds: int) -> object:
        """The query's result if all results of its cycle are as assumed; else `_AGAIN`, and they are dropped.

        A query whose result is another one in every round has its default as its result.
        """
        progress = self._progress
        inner = list(itertools.islice(progress.provisional.items(), earlier, None))
        results = {key: (answer, self), **{each: (found.answer, found.cache) for each, found in inner}}
        used = {each: progress.used.pop(each) for each in results if each in progress.used}
        unsettled = {
            each: first
            for each, (assumed, first) in used.items()
            if not results[each][1]._is_same(assumed, results[each][0])
        }
        if unsettled and rounds < bounds.MOST_ROUNDS:
            progress.take_since(earlier)
            progress.assumed.update((each, results[each][0]) for each in used)
            return _AGAIN
        for each in results:
            progress.assumed.pop(each, None)
        for each, found in inner:
            if each in unsettled:
                progress.provisional[each] = found._replace(answer=unsettled[each])
        return unsettled.get(key, answer)
