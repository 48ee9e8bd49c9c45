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
    stored_as: int  # the key of its result once that is final
    question: object
    compute: Callable[[], Any]
    situation: object


class _Provisional(NamedTuple):
    """A result that is not final, because it rests on queries in progress."""

    query: _Query
    answer: Any
    cycle: int  # the depth of the outermost query whose result it assumes
    cut: int  # the depth of the outermost query from which a bound counts that has cut something off
    is_open: bool  # whether it assumes the result of a query that was put off
    node: Node


class _PutOff(NamedTuple):
    """A query that too many others were in progress for: what is assumed of it, and its result if it never settles."""

    query: _Query
    assumed: Any
    last: Any


class _BeginsElsewhere(NamedTuple):
    """In place of a result: the cycle that the query belongs to begins with another one."""

    first: _Query


class Progress:
    """The queries in progress in all caches that may ask each other.

    A query that asks itself, directly or through others, forms a cycle with them. In the first round it gets its
    default. Then the first query of the cycle runs them all again, with the results of the round before, until each
    result is the one that was assumed. All of them are final then. A cycle may settle in more than one way. So its
    first query is the one of lowest rank, whichever was asked first.

    A query that comes where too many are in progress is put off. Its default stands for its result, and the outermost
    query runs it at the end of its round. Until what is assumed of it is its result, there are more rounds, too.

    One case is left where the order of questions decides. A query asks another one only for some results of a third;
    the default of that one is such a result, and what it settles to is none. Then which queries belong to the cycle,
    and so which one is first, depends on where the cycle was entered. Where all defaults are the least result, a cycle
    settles in one way.
    """

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.open: dict[int, int] = {}  # query -> its depth
        self.stack: list[int] = []  # the same queries, outermost first
        self.local: dict[tuple[int, int], int] = {}  # query, the one that its bounds count from -> its own key
        self.provisional: dict[int, _Provisional] = {}
        self.assumed: dict[int, Any] = {}  # query of a cycle -> its result in the round before
        self.used: dict[int, tuple[Any, Any]] = {}  # -> what it was assumed to be, what it is if it never settles
        self.put_off: dict[int, _PutOff] = {}  # in this round of the outermost query
        self.counted_from: set[int] = set()  # depths that some provisional result has as its `cycle` or `cut`
        self.cycle = self.cut = _NONE  # as in `_Provisional`, for the innermost query
        self.is_open = False  # likewise

    @property
    def depth(self) -> int:
        """How many queries are in progress."""
        return len(self.open)

    @property
    def is_in_cycle(self) -> bool:
        """Whether the innermost query has used the result of a query in progress, or of one that was put off."""
        return self.cycle != _NONE or self.is_open

    def origin(self) -> int:
        """The depth of the query that bounds count from."""
        return 0

    def situation(self) -> object:
        """What the current query may depend on besides its question."""
        return None

    def again(self, situation: object, compute: Callable[[], _R]) -> _R:
        """A result in an earlier situation, but without the bounds that others counted there."""
        del situation
        return compute()

    def rest_on(self, cycle: int, cut: int, is_open: bool = False) -> None:
        """The innermost query uses a provisional result that rests on these."""
        self.cycle, self.cut, self.is_open = min(self.cycle, cycle), min(self.cut, cut), self.is_open or is_open

    def since(self, earlier: int) -> list[_Provisional]:
        """The provisional results but for the `earlier` first ones."""
        later = itertools.islice(reversed(self.provisional.values()), len(self.provisional) - earlier)
        return list(later)[::-1]

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

    def limit_of(self, question: tuple[object, ...], limit: int) -> int:
        """The limit of calls up under which a query is stored, or will be, if it is asked under this limit."""
        known = self.reaches.get(question)
        return known[0] if known is not None and known[1] <= limit else limit

    def has_under(self, limit: int, question: tuple[object, ...]) -> bool:
        """Whether the result that is asked for under this limit of calls up is stored."""
        return self.has((*question, self.limit_of(question, limit)))

    def has(self, question: object) -> bool:
        """Whether the result is stored."""
        return self._numbers.get(question, -1) in self._known

    def ask(
        self,
        question: object,
        compute: Callable[[], _R],
        default: Callable[[], _R],
        unsettled: Callable[[], _R] | None = None,
        is_bounded: bool = False,
    ) -> _R:
        """The stored result, or that of `compute`; while the query is in progress, what is assumed of it.

        `unsettled` is the result where each round has another one; None: the default. `is_bounded`: a bound may cut
        the result off; until it is final, it is for those alone whose bounds count from the same query.
        """
        progress = self._progress
        # Queries contain whole Values, which are slow to hash: numbers identify them.
        key = self._numbers.get(question)
        if key is None:
            key = self._numbers[question] = next(progress.numbers)
        stored_as = key
        if is_bounded and self._is_of_others(key):
            own = key, progress.stack[progress.origin()]
            key = progress.local.setdefault(own, next(progress.numbers))
        known = self._stored(key, stored_as)
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
        query = _Query(self, key, stored_as, question, compute, progress.situation())
        if progress.depth >= max(bounds.MOST_QUERIES_DEEP, 1):
            progress.rest_on(_NONE, _NONE, is_open=True)
            if key not in progress.put_off:
                first = default()
                last = first if unsettled is None else unsettled()
                progress.put_off[key] = _PutOff(query, progress.assumed.get(key, first), last)
            return progress.put_off[key].assumed  # type: ignore[no-any-return]
        return self._answer(query, compute)  # type: ignore[no-any-return]

    def _is_of_others(self, key: int) -> bool:
        """Whether the query is in progress, or cut off, where bounds count from a query further out than now."""
        progress, origin = self._progress, self._progress.origin()
        provisional = progress.provisional.get(key)
        return progress.open.get(key, origin) < origin or (provisional is not None and provisional.cut < origin)

    def _stored(self, key: int, stored_as: int) -> tuple[Any] | None:
        """The result of the query, final or provisional, if there is one."""
        progress = self._progress
        known = self._known.get(stored_as)
        if known is not None:
            self._recorder.here.add(known[1])
            return known[:1]
        provisional = progress.provisional.get(key)
        if provisional is not None:
            progress.rest_on(provisional.cycle, provisional.cut, provisional.is_open)
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
            self._answer_again(first)
            known = self._stored(query.key, query.stored_as)
            if known is not None:
                return known[0]

    def _answer_again(self, query: _Query) -> Any:
        known = query.cache._stored(query.key, query.stored_as)
        if known is not None:
            return known[0]
        return query.cache._answer(query, functools.partial(self._progress.again, query.situation, query.compute))

    def _work_out(self, query: _Query, compute: Callable[[], Any], begun: Container[int]) -> Any:
        progress, recorder, key = self._progress, self._recorder, query.key
        depth, earlier = progress.depth, len(progress.provisional)
        before, outer, assumed = (progress.cycle, progress.cut, progress.is_open), recorder.here, progress.assumed
        progress.open[key] = depth
        progress.stack.append(key)
        put_off: list[_Query] = []  # in the round before
        try:
            for rounds in itertools.count():
                progress.cycle, progress.cut, progress.is_open = _NONE, _NONE, False
                recorder.here = set()
                for each in reversed(put_off):  # those that come late rest on fewer others
                    self._answer_again(each)
                answer = compute()
                if depth == 0:
                    put_off = self._answer_put_off()
                cycle, cut = progress.cycle, progress.cut
                if cycle != depth and not put_off:
                    break
                # In any round: what belongs to the cycle may show only later.
                first = _first(query, [found for found in progress.since(earlier) if found.cycle == depth])
                if first is not query and first.key not in begun:
                    progress.drop_since(earlier)
                    progress.used.pop(key, None)
                    if depth == 0:
                        progress.put_off.clear()
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
            before = min(before[0], cycle), min(before[1], cut), before[2] or progress.is_open
            raise
        finally:
            is_open = progress.is_open and depth > 0
            if depth == 0:
                progress.put_off.clear()
                progress.local.clear()
            del progress.open[key]
            progress.stack.pop()
            counts_here = depth in progress.counted_from
            progress.counted_from.discard(depth)
            progress.assumed = assumed
            progress.cycle, progress.cut, progress.is_open = before
            recorder.here = outer
        cycle, cut = _outside(depth, cycle, cut)
        final = cycle == cut == _NONE and not is_open
        if final or counts_here:
            # What a bound has cut off depends on the calls that led there from this query: another query finds more.
            inner = [found for found in progress.since(earlier) if found.cut != depth]
            used = {each: progress.used[each] for each in (found.query.key for found in inner) if each in progress.used}
            progress.drop_since(earlier)
            progress.used.update(used)  # the outer query of the cycle compares them
            for found in inner:
                if final:
                    found.query.cache._known[found.query.stored_as] = found.answer, own
                else:
                    ended = found.cycle >= depth  # it rests on this query, and so on what this one rests on
                    open_too = found.is_open or is_open
                    kept = found._replace(cycle=cycle, cut=min(found.cut, cut), is_open=open_too) if ended else found
                    progress.provisional[found.query.key] = kept
        if final:
            self._known[query.stored_as] = answer, own
        else:
            progress.provisional[key] = _Provisional(query, answer, cycle, cut, is_open, own)
            progress.rest_on(cycle, cut, is_open)
        return answer

    def _answer_put_off(self) -> list[_Query]:
        """Answer the queries that were put off in this round, and those that are put off meanwhile; return them all."""
        done: list[_Query] = []
        while len(done) < len(self._progress.put_off):
            for each in list(self._progress.put_off.values())[len(done) :]:
                self._answer_again(each.query)
                done.append(each.query)
        return done

    def _settle(self, key: int, answer: object, earlier: int, rounds: int) -> object:
        """The query's result if all results of its cycle are as assumed; else `_AGAIN`, and they are dropped.

        A query whose result is another one in every round gets the result that it was asked with for that case.
        """
        progress = self._progress
        inner = progress.since(earlier)
        results = {key: (answer, self), **{found.query.key: (found.answer, found.query.cache) for found in inner}}
        used = [(each, *progress.used.pop(each)) for each in results if each in progress.used]
        if progress.depth == 1:
            for each, (query, *expected) in progress.put_off.items():
                results[each] = query.cache._answer_again(query), query.cache
                used.append((each, *expected))
            progress.put_off.clear()
        unsettled = {
            each: last for each, assumed, last in used if not results[each][1]._is_same(assumed, results[each][0])
        }
        most = bounds.MOST_ROUNDS if len(results) <= bounds.MOST_QUERIES_SETTLED else bounds.ROUNDS_OF_MANY
        if unsettled and rounds < most:
            progress.drop_since(earlier)
            progress.assumed = {**progress.assumed, **{each: result for each, (result, _) in results.items()}}
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
