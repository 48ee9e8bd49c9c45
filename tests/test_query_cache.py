"""Queries that depend on each other in cycles: random systems of monotone equations, asked in every order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_lint.model import bounds
from torchperf_lint.model.project.dependencies import DependencyRecorder
from torchperf_lint.model.project.query_cache import Progress, QueryCache

Set = frozenset[int]
Ask = Callable[[int], Set]

NOTHING: Set = frozenset()


class Equation(NamedTuple):
    """The result of a query: a union or an intersection of others, after a turn of their members, and a constant.

    `WHILE` is a union of the others up to the first that is empty: only results tell which queries there are.
    """

    kind: str
    others: tuple[int, ...]
    constant: Set
    turn: int

    def result(self, ask: Ask) -> Set:
        found = [frozenset((each + self.turn) % MEMBERS for each in result) for result in self.results(ask)]
        if self.kind == "ALL" and found:
            return self.constant | found[0].intersection(*found)
        return self.constant.union(*found)

    def results(self, ask: Ask) -> Iterator[Set]:
        for other in self.others:
            result = ask(other)
            if self.kind == "WHILE" and not result:
                return
            yield result


class Raised(Exception):
    """Raised in a query."""


MEMBERS = 3
SETS = st.frozensets(st.integers(0, MEMBERS - 1))


class System:
    """Equations, one query each, in some caches that share their progress."""

    def __init__(
        self,
        equations: list[Equation],
        ranks: list[int | None] | None = None,
        defaults: list[Set] | None = None,
        caches: int = 1,
    ) -> None:
        self.equations = equations
        self.defaults = defaults or [NOTHING] * len(equations)
        self.recorder, self.progress = DependencyRecorder(), Progress()
        rank = None if ranks is None else ranks.__getitem__
        made = [QueryCache(self.recorder, self.progress, rank=rank) for _ in range(caches)]
        self.cache_of = [made[at % caches] for at in range(len(equations))]
        self.computed = 0
        self.raises_at = 0  # the computation that raises
        self.catches = False  # whether each query goes on where one that it asks has raised

    def ask(self, at: int) -> Set:
        return self.cache_of[at].ask(at, lambda: self.compute(at), lambda: self.defaults[at])

    def compute(self, at: int) -> Set:
        self.computed += 1
        raises = self.computed == self.raises_at
        self.recorder.asked(("equation", str(at)))
        result = self.equations[at].result(self.ask_or_catch)
        if raises:
            raise Raised
        return result

    def ask_or_catch(self, at: int) -> Set:
        try:
            return self.ask(at)
        except Raised:
            if not self.catches:
                raise
            return NOTHING

    def all_in_order(self, order: tuple[int, ...]) -> list[Set]:
        found = {}
        for at in order:
            found[at] = self.ask(at)
            self.check_that_nothing_is_left()
        return [found[at] for at in range(len(order))]

    def check_that_nothing_is_left(self) -> None:
        progress = self.progress
        assert [progress.open, progress.stack, progress.provisional] == [{}, [], {}]
        assert [progress.assumed, progress.used, progress.put_off, progress.local] == [{}, {}, {}, {}]

    def results_by_order(self) -> set[tuple[Set, ...]]:
        """The results for each order of questions, of new systems like this one."""
        ranks, first = self.cache_of[0]._rank, len(set(map(id, self.cache_of)))
        given = None if ranks is None else [ranks(at) for at in range(len(self.equations))]
        orders = itertools.permutations(range(len(self.equations)))
        new = (System(self.equations, given, self.defaults, first) for _ in itertools.count())
        return {tuple(system.all_in_order(order)) for order, system in zip(orders, new, strict=False)}


def least(equations: list[Equation]) -> list[Set]:
    """The least solution."""
    now = [NOTHING] * len(equations)
    while (after := [each.result(now.__getitem__) for each in equations]) != now:
        now = after
    return now


@st.composite
def systems(draw: st.DrawFn, kinds: str = "ANY ALL WHILE", ranked: bool | None = None, empty: bool = True) -> System:
    """Systems; `ranked`: all queries have a rank, or none, or (None) some; `empty`: all defaults are empty."""
    count = draw(st.integers(1, 4))
    others = st.lists(st.integers(0, count - 1), max_size=3).map(tuple)
    equation = st.builds(Equation, st.sampled_from(kinds.split()), others, SETS, st.integers(0, 1))
    ranks: list[int | None] = list(draw(st.permutations(range(count))))
    if ranked is None:
        ranks = [draw(st.sampled_from([rank, None])) for rank in ranks]
    elif not ranked:
        ranks = [None] * count
    defaults = None if empty else [draw(SETS) for _ in range(count)]
    equations = [draw(equation) for _ in range(count)]
    return System(equations, ranks, defaults, draw(st.integers(1, 2)))


@pytest.fixture(autouse=True, scope="module")
def many_rounds() -> Iterator[None]:
    """Rounds in which all these systems settle that can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_ROUNDS", 30)
        yield


@given(systems())
def test_results_are_the_least_solution_in_every_order(system: System) -> None:
    """With ranks or without: from the bottom there is one way to settle."""
    assert system.results_by_order() == {tuple(least(system.equations))}


@given(systems(kinds="ANY ALL", ranked=True, empty=False))
def test_a_cycle_with_several_solutions_settles_in_the_same_one(system: System) -> None:
    """Ranks decide, where what begins the cycle matters: the equations may hold for more than one solution."""
    assert len(system.results_by_order()) == 1


@pytest.mark.parametrize(
    ("kinds", "rounds"),
    [*itertools.product(["ANY ALL"], range(3)), *itertools.product(["ANY ALL WHILE"], range(1, 3))],
)
@given(data=st.data())
def test_cycles_that_do_not_settle_have_the_same_results_in_every_order(
    kinds: str, rounds: int, data: st.DataObject
) -> None:
    """With `WHILE` only where there is a second round: it may be the one that shows a query of the cycle."""
    system = data.draw(systems(kinds=kinds, ranked=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_ROUNDS", rounds)
        assert len(system.results_by_order()) == 1


@given(systems(ranked=True), st.integers(0, 3))
def test_large_cycles_run_again_less_often_and_the_same_in_every_order(system: System, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_QUERIES_SETTLED", size)
        patch.setattr(bounds, "ROUNDS_OF_MANY", 1)
        assert len(system.results_by_order()) == 1


def test_a_cycle_is_large_by_the_number_of_its_queries() -> None:
    """Two queries that add to each other's members need three rounds; cut off, they have their defaults."""
    equations = [Equation("ANY", (1,), frozenset({0}), 1), Equation("ANY", (0,), NOTHING, 0)]
    assert System(equations, [0, 1]).ask(0) == frozenset(range(MEMBERS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_QUERIES_SETTLED", 2)
        assert System(equations, [0, 1]).ask(0) == frozenset(range(MEMBERS))
        patch.setattr(bounds, "MOST_QUERIES_SETTLED", 1)
        assert System(equations, [0, 1]).ask(0) == NOTHING


def test_a_query_that_a_later_round_shows_may_begin_the_cycle() -> None:
    """Query 0 asks query 1 only once it is not empty itself; both then form a cycle, which begins with query 0."""
    equations = [Equation("WHILE", (0, 1), frozenset({1}), 0), Equation("ANY", (0,), frozenset({0}), 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_ROUNDS", 1)
        assert len(System(equations, [0, 1]).results_by_order()) == 1


def test_a_result_that_adds_a_query_to_a_cycle_may_settle_in_another_way() -> None:
    """A known limit: `WHILE` and defaults that are not empty, together, which no other test here has.

    Query 1 asks query 0 only if query 2 is not empty. Begun with query 1, whose default is empty, the cycle is that of
    queries 1 and 2, and all stay empty. Begun with query 2, whose default is not, query 0 belongs to it as well. That
    one has the lowest rank, so the cycle begins with it, and settles with `{0}` for all.
    """
    equations = [
        Equation("ANY", (2,), NOTHING, 0),
        Equation("WHILE", (2, 0), NOTHING, 0),
        Equation("ANY", (1,), NOTHING, 0),
    ]
    full = frozenset({0})
    system = System(equations, [0, 1, 2], [full, NOTHING, full])
    assert system.results_by_order() == {(NOTHING,) * 3, (full,) * 3}
    assert System(equations, [0, 1, 2]).results_by_order() == {(NOTHING,) * 3}


@given(systems(empty=False), st.integers(0, 3))
def test_nothing_is_left_where_cycles_do_not_settle(system: System, rounds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_ROUNDS", rounds)
        system.results_by_order()  # looks after each query


def test_nothing_is_left_of_a_query_that_only_an_earlier_round_asks() -> None:
    """Query 2 belongs to the cycle of query 0 as long as query 1 is not empty, which is the first round."""
    equations = [
        Equation("WHILE", (1, 2), NOTHING, 1),
        Equation("ALL", (0, 3), NOTHING, 0),
        Equation("ANY", (0, 2), NOTHING, 0),
        Equation("ANY", (), frozenset({1}), 0),
    ]
    system = System(equations, defaults=[frozenset({1}), NOTHING, NOTHING, NOTHING])
    assert system.all_in_order((0, 1, 2, 3)) == [NOTHING, NOTHING, NOTHING, frozenset({1})]


@given(systems(), st.integers(1, 30), st.booleans())
def test_nothing_is_left_after_an_exception(system: System, at: int, catches: bool) -> None:
    count = len(system.equations)
    system.raises_at, system.catches = at, catches
    for each in range(count):
        before = system.recorder.here
        try:
            system.ask(each)
        except Raised:
            assert system.recorder.here is before
        system.check_that_nothing_is_left()
    if not catches:
        system.raises_at = 0
        assert system.all_in_order(tuple(range(count))) == least(system.equations)


@given(systems(), st.integers(0, 4))
def test_queries_that_are_put_off_have_the_same_results(system: System, deepest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_QUERIES_DEEP", deepest)
        assert system.results_by_order() == {tuple(least(system.equations))}


def test_a_query_that_is_put_off_and_never_settles_has_the_result_for_that_case() -> None:
    cache = QueryCache(DependencyRecorder())

    def ask(at: int) -> int:
        return cache.ask(at, lambda: ask((at + 1) % 3) + 1, lambda: 0, lambda: -1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "MOST_QUERIES_DEEP", 2)
        assert -1 in {ask(0), ask(1), ask(2)}


class Counting(Progress):
    """Bounds that count from the innermost frame."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[int] = []

    def origin(self) -> int:
        return self.frames[-1]


def test_what_a_bound_has_cut_off_is_for_the_same_frame_alone() -> None:
    """The call of the outer frame is cut off. The inner frame makes it, too: its own one is not, and it is final."""
    progress = Counting()
    cache = QueryCache(DependencyRecorder(), progress)

    def frame(name: str, answer: Callable[[], list[str]]) -> list[str]:
        def run() -> list[str]:
            progress.frames.append(progress.depth - 1)
            try:
                return answer()
            finally:
                progress.frames.pop()

        return cache.ask(name, run, list)

    def call() -> list[str]:
        def follow() -> list[str]:
            if len(progress.frames) == 1:
                cache.mark_cut_off(progress.origin())
                return []
            return ["followed"]

        return cache.ask("call", follow, list, is_bounded=True)

    def inner() -> list[str]:
        return frame("inner", call)

    assert frame("outer", lambda: [*call(), *inner(), *call()]) == ["followed", "followed"]
    assert cache.has("inner")
    assert cache.has("call")
    assert (progress.local, progress.provisional) == ({}, {})


@given(systems(kinds="ANY ALL"))
def test_a_result_depends_on_all_that_it_was_computed_from(system: System) -> None:
    """Of provisional results, too, and of those that are stored when a cycle has settled."""
    equations = system.equations
    for order in itertools.permutations(range(len(equations))):
        asked = System(equations, [None] * len(equations), caches=2)
        for at in order:
            asked.recorder.begin()
            asked.ask(at)
            told = asked.recorder.dependencies()
            assert told is not None
            reached, pending = set[int](), [at]
            while pending:
                if (each := pending.pop()) not in reached:
                    reached.add(each)
                    pending += equations[each].others
            names = {query.number: question[1] for question, query in asked.recorder._queries.items()}
            assert {names[number] for number in told.asked} == set(map(str, reached))


def test_a_query_that_never_settles_has_the_result_for_that_case() -> None:
    cache = QueryCache(DependencyRecorder())

    def ask() -> int:
        return cache.ask("number", lambda: ask() + 1, lambda: 0, lambda: -1)

    assert (ask(), ask()) == (-1, -1)
