"""Memoized queries that may depend on each other in cycles; results do not depend on the order of queries."""

from __future__ import annotations

import functools
import itertools
import operator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.model import bounds
from torchperf_lint.model.project.dependencies import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from torchperf_lint.model.project.dependencies import DependencyRecorder, Node

_R = TypeVar("_R")

_AGAIN = object()
_NONE = 1 << 30
"""A depth that no query has: nothing in progress is meant."""


class _Query(NamedTuple):
    """A query as it was asked."""

    cache: QueryCache
    key: int
    question: object
    compute: Callable[[], Any]
    situation: object


class _Provisional(NamedTuple):
    """A result that is not final, because it rests on queries in progress."""

    query: _Query
    answer: Any
    cycle: int  # the depth of the outermost query whose result it assumes
    cut: int  # the depth of the outermost query from which a bound counts that has cut something off
    node: Node


class _BeginsElsewhere(NamedTuple):
    """In place of a result: the cycle that the query belongs to begins with another one."""

    first: _Query


class Progress:
    """The queries in progress in all caches that may ask each other.

    A query that asks itself, directly or through others, forms a cycle with them. In the first round it gets its
    default. Then the first query of the cycle runs them all again, with the results of the round before, until each
    result is the one that was assumed. All of them are final then. A cycle may settle in more than one way. So its
    first query is the one of lowest rank, whichever was asked first.

    One case is left where the order of questions decides. A query asks another one only for some results of a third;
    the default of that one is such a result, and what it settles to is none. Then which queries belong to the cycle,
    and so which one is first, depends on where the cycle was entered. Where all defaults are the least result, a cycle
    settles in one way.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.open: dict[int, int] = {}  # query -> its depth
        self.provisional: dict[int, _Provisional] = {}
        self.assumed: dict[int, Any] = {}  # query of a cycle -> its result in the round before
        self.used: dict[int, tuple[Any, Any]] = {}  # -> what it was assumed to be, what it is if it never settles
        self.counted_from: set[int] = set()  # depths that some provisional result has as its `cycle` or `cut`
        self.cycle = self.cut = _NONE  # as in `_Provisional`, for the innermost query

    @property
    def depth(self) -> int:
        """How many queries are in progress."""
        return len(self.open)

    def situation(self) -> object:
        """What the current query may depend on besides its question."""
        return None

    def again(self, situation: object, compute: Callable[[], _R]) -> _R:
        """A result in an earlier situation, but without the bounds that others counted there."""
        del situation
        return compute()

    def rest_on(self, cycle: int, cut: int) -> None:
        """The innermost query uses a provisional result that rests on these."""
        self.cycle, self.cut = min(self.cycle, cycle), min(self.cut, cut)

    def since(self, earlier: int) -> list[_Provisional]:
        """The provisional results but for the `earlier` first ones."""
        return list(itertools.islice(self.provisional.values(), earlier, None))

    def drop_since(self, earlier: int) -> None:
        """Drop these results, and what was assumed of their queries."""
        for _ in range(len(self.provisional) - earlier):
            key, _ = self.provisional.popitem()
            self.used.pop(key, None)


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
        rank: Callable[[Any], Any] | None = None,
    ) -> None:
        """`progress` is that of all caches whose queries may ask each other.

        `is_same` compares two results. `rank` gives a question's place in a fixed order; None: it begins no cycle.
        """
        self._recorder = recorder
        self._progress = progress or Progress()
        self._is_same = is_same
        self._rank = rank
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
        self._progress.counted_from.add(depth)

    def has(self, question: object) -> bool:
        """Whether the result is stored."""
        return self._numbers.get(question, -1) in self._known

    def ask(
        self,
        question: object,
        compute: Callable[[], _R],
        default: Callable[[], _R],
        unsettled: Callable[[], _R] | None = None,
    ) -> _R:
        """The stored result, or that of `compute`; while the query is in progress, what is assumed of it.

        `unsettled` is the result where each round has another one; None: the default.
        """
        progress = self._progress
        # Queries contain whole Values, which are slow to hash: numbers identify them.
        key = self._numbers.get(question)
        if key is None:
            key = self._numbers[question] = next(progress.numbers)
        known = self._stored(key)
        if known is not None:
            return known[0]  # type: ignore[no-any-return]
        depth = progress.open.get(key)
        if depth is not None:
            progress.rest_on(depth, _NONE)
            progress.counted_from.add(depth)
            if key not in progress.used:
                first = default()
                last = first if unsettled is None else unsettled()
                progress.used[key] = progress.assumed.get(key, first), last
            return progress.used[key][0]  # type: ignore[no-any-return]
        if progress.depth >= bounds.MOST_QUERIES_DEEP:
            self.mark_cut_off(0)
            return default()
        return self._answer(_Query(self, key, question, compute, progress.situation()), compute)  # type: ignore[no-any-return]

    def _stored(self, key: int) -> tuple[Any] | None:
        """The result of the query, final or provisional, if there is one."""
        progress = self._progress
        known = self._known.get(key)
        if known is not None:
            self._recorder.here.add(known[1])
            return known[:1]
        provisional = progress.provisional.get(key)
        if provisional is not None:
            progress.rest_on(provisional.cycle, provisional.cut)
            self._recorder.here.add(provisional.node)
            return (provisional.answer,)
        return None

    def _answer(self, query: _Query, compute: Callable[[], Any]) -> Any:
        begun: set[int] = set()  # the queries that cycles of this one were to begin with
        while True:
            answer = self._work_out(query, compute, begun)
            if not isinstance(answer, _BeginsElsewhere):
                return answer
            first = answer.first
            begun.add(first.key)
            first.cache._answer(first, functools.partial(self._progress.again, first.situation, first.compute))
            known = self._stored(query.key)
            if known is not None:
                return known[0]

    def _work_out(self, query: _Query, compute: Callable[[], Any], begun: Container[int]) -> Any:
        progress, recorder, key = self._progress, self._recorder, query.key
        depth, earlier = progress.depth, len(progress.provisional)
        before, outer, assumed = (progress.cycle, progress.cut), recorder.here, progress.assumed
        progress.open[key] = depth
        try:
            for rounds in itertools.count():
                progress.cycle = progress.cut = _NONE
                recorder.here = set()
                answer = compute()
                cycle, cut = progress.cycle, progress.cut
                if cycle != depth:
                    break
                # In any round: what belongs to the cycle may show only later.
                first = _first(query, [found for found in progress.since(earlier) if found.cycle == depth])
                if first is not query and first.key not in begun:
                    progress.drop_since(earlier)
                    progress.used.pop(key, None)
                    return _BeginsElsewhere(first)
                answer = self._settle(key, answer, earlier, rounds)
                if answer is not _AGAIN:
                    break
            own = node_of(recorder.here)
            outer.add(own)
        except BaseException:
            progress.drop_since(earlier)
            progress.used.pop(key, None)
            # Where an outer query catches it, its result rests on what this one has used.
            outer |= recorder.here
            cycle, cut = _outside(depth, progress.cycle, progress.cut)
            before = min(before[0], cycle), min(before[1], cut)
            raise
        finally:
            del progress.open[key]
            counts_here = depth in progress.counted_from
            progress.counted_from.discard(depth)
            progress.assumed = assumed
            progress.cycle, progress.cut = before
            recorder.here = outer
        cycle, cut = _outside(depth, cycle, cut)
        final = cycle == cut == _NONE
        if final or counts_here:
            # What a bound has cut off depends on the calls that led there from this query: another query finds more.
            inner = [found for found in progress.since(earlier) if found.cut != depth]
            used = {each: progress.used[each] for each in (found.query.key for found in inner) if each in progress.used}
            progress.drop_since(earlier)
            progress.used.update(used)  # the outer query of the cycle compares them
            for found in inner:
                if final:
                    found.query.cache._known[found.query.key] = found.answer, own
                else:
                    ended = found.cycle >= depth  # it rests on this query, and so on what this one rests on
                    kept = found._replace(cycle=cycle, cut=min(found.cut, cut)) if ended else found
                    progress.provisional[found.query.key] = kept
        if final:
            self._known[key] = answer, own
        else:
            progress.provisional[key] = _Provisional(query, answer, cycle, cut, own)
            progress.rest_on(cycle, cut)
        return answer

    def _settle(self, key: int, answer: object, earlier: int, rounds: int) -> object:
        """The query's result if all results of its cycle are as assumed; else `_AGAIN`, and they are dropped.

        A query whose result is another one in every round gets the result that it was asked with for that case.
        """
        progress = self._progress
        inner = progress.since(earlier)
        results = {key: (answer, self), **{found.query.key: (found.answer, found.query.cache) for found in inner}}
        used = {each: progress.used.pop(each) for each in results if each in progress.used}
        unsettled = {
            each: last
            for each, (assumed, last) in used.items()
            if not results[each][1]._is_same(assumed, results[each][0])
        }
        if unsettled and rounds < bounds.MOST_ROUNDS:
            progress.drop_since(earlier)
            progress.assumed = {**progress.assumed, **{each: results[each][0] for each in used}}
            return _AGAIN
        for found in inner:
            if found.query.key in unsettled:
                progress.provisional[found.query.key] = found._replace(answer=unsettled[found.query.key])
        return unsettled.get(key, answer)


def _outside(depth: int, cycle: int, cut: int) -> tuple[int, int]:
    """What a result at that depth rests on, as in `_Provisional`, without the query itself."""
    return cycle if cycle < depth else _NONE, cut if cut < depth else _NONE


def _first(query: _Query, cycle: list[_Provisional]) -> _Query:
    """The query of lowest rank in a cycle; the given one if none has a rank."""
    ranks = (
        (found.cache._rank and found.cache._rank(found.question), found)
        for found in [query, *(each.query for each in cycle)]
    )
    ranked = [(rank, found) for rank, found in ranks if rank is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else query
