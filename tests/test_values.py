"""Laws of the value lattice, and that no answer of the model depends on which question came first."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linting import ROOT, label
from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model import bounds
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.domain import provenance
from torchperf_lint.model.domain.values import (
    UNKNOWN,
    Device,
    Kind,
    Registry,
    Value,
    container,
    join,
    join_all,
    located,
)
from torchperf_lint.model.frequency.numbers import is_certain
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.model.values.inference import ValueInference
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.syntax.index import FunctionInfo

STEP = st.builds(Because, st.integers(1, 99), st.sampled_from(["a", "b"]), st.none())
STEPS, SOME_STEPS = (st.lists(STEP, min_size=least, max_size=2).map(tuple) for least in (0, 1))
FILES = sorted((ROOT / "fixtures" / "model").glob("*.py"))

PLAIN = st.builds(
    Value,
    kind=st.sampled_from(Kind),
    device=st.sampled_from(Device),
    scalar=st.sampled_from([None, True, False]),
    vector=st.sampled_from([None, True, False]),
    dtype=st.sampled_from([None, "float32", "int64"]),
    origin=st.sampled_from([None, "batch", "model"]),
    ref=st.sampled_from([None, "torch.relu", "torch.nn.Linear"]),
    constant=st.sampled_from([None, 1, 1.0, True, "cuda"]),
    mixed=st.booleans(),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.builds(container, inner, st.lists(st.tuples(st.integers(0, 2), inner), max_size=2)),
    max_leaves=4,
)


SHOWN = st.builds(lambda value, because: value._replace(because=because), VALUES, STEPS)


@given(st.dictionaries(st.sampled_from("xyz"), SHOWN))
def test_evidence_that_is_set_apart_comes_back(values: dict[str, Value]) -> None:
    bare, shown = provenance.strip(values)
    assert {name: provenance.restore(value, shown) for name, value in bare.items()} == values


@given(VALUES, SOME_STEPS, SOME_STEPS)
def test_values_that_differ_in_evidence_alone_are_the_same_without_it(
    value: Value, one: tuple[Because, ...], other: tuple[Because, ...]
) -> None:
    bare = [provenance.strip({"x": value._replace(because=because)})[0] for because in (one, other)]
    assert bare[0] == bare[1]
    pair = {"x": value._replace(because=one), "y": value._replace(because=other)}
    apart = provenance.strip(pair)[0]
    assert (apart["x"] == apart["y"]) is (one == other)


def test_evidence_keeps_the_file_that_a_token_was_seen_from() -> None:
    step = Because(3, "moved here")
    bare, shown = provenance.strip({"x": Value(Kind.TENSOR, because=(step,))})
    elsewhere = located(bare["x"], "other.py")
    assert provenance.restore(elsewhere, shown).because == (Because(3, "moved here", "other.py"),)


@given(VALUES)
def test_join_is_idempotent(value: Value) -> None:
    assert join(value, value._replace()) == value


@given(VALUES, VALUES)
def test_join_does_not_care_about_sides(left: Value, right: Value) -> None:
    one, other = join(left, right), join(right, left)
    assert one._replace(because=()) == other._replace(because=())


@given(st.lists(st.sampled_from([UNKNOWN, *(Value(kind, d) for kind in (Kind.TENSOR, Kind.PYTREE) for d in Device)])))
def test_where_a_join_is_does_not_depend_on_the_order(values: list[Value]) -> None:
    joined = [join_all(some) for some in itertools.permutations(values[:3])]
    assert len({(each.device, each.partly_host) for each in joined}) == 1


@given(VALUES)
def test_unknown_absorbs_all_but_a_choice_of_the_device(value: Value) -> None:
    is_choice = value.kind is Kind.DEVICE and value.device.on_accelerator
    joined = join(value, UNKNOWN)
    assert joined == join(UNKNOWN, value)
    assert joined.kind is (Kind.DEVICE if is_choice else Kind.UNKNOWN)
    assert joined.device.on_accelerator is is_choice
    assert joined.device is not Device.CUDA, "what the user may ask for is not certain"


def test_unknown_leaves_a_class_that_a_registry_may_hold() -> None:
    registered = Value(Kind.CLASS, among=(Registry("models"),))
    assert join(registered, UNKNOWN) == join(UNKNOWN, registered) == registered
    assert join(Value(Kind.CLASS), UNKNOWN) == UNKNOWN


@given(VALUES, VALUES)
def test_join_claims_no_more_than_both_sides(left: Value, right: Value) -> None:
    joined = join(left, right)
    sides = [side for side in (left, right) if side.kind is not Kind.NONE]
    for side in sides:
        if joined.kind is side.kind:
            assert joined.scalar in (None, side.scalar)
            assert joined.vector in (None, side.vector)
            assert joined.dtype in (None, side.dtype)
            assert joined.constant is None or joined.constant is side.constant
    if joined.device is Device.CUDA:
        assert all(side.device is Device.CUDA for side in sides if side.kind is not Kind.NUMBER)
    if joined.kind is Kind.LIBRARY and len(sides) == 2:
        assert left.ref == right.ref == joined.ref


def test_the_evidence_of_a_join_is_that_of_the_side_on_the_accelerator() -> None:
    host = Value(Kind.TENSOR, Device.CPU, because=(Because(1, "built on the CPU"),))
    moved = Value(Kind.TENSOR, Device.CUDA, because=(Because(2, "moved to the device"),))
    for one, other in ((host, moved), (moved, host)):
        joined = join(one, other, Device.LIKELY)
        assert joined.device.on_accelerator
        assert joined.because == moved.because


@given(VALUES, VALUES)
def test_a_question_about_the_accelerator_leans_to_it(left: Value, right: Value) -> None:
    leaned = join(left, right, Device.LIKELY)
    if leaned.device.on_accelerator:
        assert left.device.on_accelerator or right.device.on_accelerator


def test_containers_are_known_to_a_bounded_depth() -> None:
    value = Value(Kind.TENSOR)
    for _ in range(50):
        value = container(value, [(0, value), (1, value)], "tuple")
    depth = 0
    while value.element is not None:
        value, depth = value.element, depth + 1
    assert depth <= bounds.MOST_NESTED
    assert container(UNKNOWN, [(i, UNKNOWN) for i in range(bounds.MOST_ITEMS + 1)]).items is None


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=label)
def test_answers_do_not_depend_on_the_order_of_questions(path: Path) -> None:
    source = Source(path.name, path.read_bytes())
    tree = source.parse()
    index = index_of(tree)

    def inference() -> ValueInference:
        analyzed = AnalyzedFile(source, index_of(tree, source.path), Hints())
        analyzed.index = index  # values name functions and classes, and are to be compared
        return analyzed.inference()

    first = _values(inference())
    numbers = list(range(len(index.functions)))
    chance = random.Random(path.name)
    for order in (numbers[::-1], *(chance.sample(numbers, len(numbers)) for _ in range(3))):
        asked = inference()
        for function in (index.functions[number] for number in order):
            asked.callers(function)
            asked.frame(function)
        assert _values(asked) == first


def _values(inference: ValueInference) -> dict[str, list[tuple[int, int, Value]]]:
    def place(node: ast.expr) -> tuple[int, int]:
        return node.lineno, node.col_offset

    return {
        f"{number} {function.name}": [(*place(node), value) for node, value in inference.frame(function).values.items()]
        for number, function in enumerate(inference.index.functions)
    }


def test_calls_that_call_in_turn_are_followed_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function calls the next one three times with arguments of their own, which no answer stands for twice."""
    again = "def f{0}(x):\n    return [f{1}([x, 1]), f{1}([x, 1.0]), f{1}([x, 'a'])]\n"
    code = "".join(again.format(number, number + 1) for number in range(6)) + "def f6(x):\n    return x\n"
    source = Source("example.py", code.encode())
    inference = AnalyzedFile(source, index_of(source.parse(), source.path), Hints()).inference()
    followed: list[object] = []
    follow = ValueInference._followed
    monkeypatch.setattr(ValueInference, "_followed", lambda *given: (followed.append(given), follow(*given))[1])
    inference.frame(inference.index.functions[1])
    assert len(followed) <= bounds.MOST_STATEMENTS_FOLLOWED


def _asking_itself(monkeypatch: pytest.MonkeyPatch, ask: Callable[[ValueInference, FunctionInfo], None]) -> Frame:
    """The frame of a function while whose run that is asked."""
    source = Source("f.py", b"def f(x):\n    y = x\n    return y\n")
    inference = AnalyzedFile(source, index_of(source.parse(), "f.py"), Hints()).inference()
    (function,) = (each for each in inference.index.functions if each.name == "f")
    run, whole = ValueInference._run, inference._inquiry.context.calls_up

    def runs(self: ValueInference, *given: Any) -> Frame:
        frame = run(self, *given)
        if given[0] is function and self._inquiry.context.calls_up == whole:
            ask(self, function)
        return frame

    monkeypatch.setattr(ValueInference, "_run", runs)
    return inference.frame(function)


def test_a_frame_that_does_not_settle_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no value of the run that was the last one."""
    assert _asking_itself(monkeypatch, ValueInference.frame).values
    monkeypatch.setattr(bounds, "MOST_ROUNDS", 0)
    frame = _asking_itself(monkeypatch, ValueInference.frame)
    assert (frame.env, frame.values, frame.returns, frame.yields) == ({}, {}, [], [])


def test_a_frame_stays_in_sight_after_one_that_looks_less_far(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Frame] = []

    def ask(inference: ValueInference, function: FunctionInfo) -> None:
        inference.alone(lambda: inference.frame(function))
        seen.append(inference.frame(function))

    frame = _asking_itself(monkeypatch, ask)
    assert seen[0].values == frame.values


@pytest.mark.parametrize(
    ("text", "certain"),
    [("2.0", True), ("len(loader)", True), ("x.item()", True), ("-n", True), ("'2'", False), ("text", False)],
)
def test_what_is_certain_to_be_a_number_is_one(text: str, certain: bool) -> None:
    source = Source("f.py", f"def f(x, loader):\n    n, text = 1, '2'\n    probe({text})\n".encode())
    analyzed = AnalyzedFile(source, index_of(source.parse(), "f.py"), Hints())
    (record,) = analyzed.index.calls["probe"]
    assert is_certain(record.call.args[0], record.function, analyzed.inference(), analyzed.frequency) is certain
