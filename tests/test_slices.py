"""Slices leave nothing out that matters: the value of every expression is that of the whole function."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linting import few
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.domain.values import UNKNOWN
from torchperf_lint.model.project.query_cache import QueryCache
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.model.values.inference import ValueInference
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo
    from torchperf_lint.model.syntax.slices import Slice

FIXTURES = Path(__file__).parent.parent / "fixtures"
PROGRAMS = sorted([*FIXTURES.glob("model/*.py"), *FIXTURES.glob("rules/*/*/*.py")])


def file_of(code: str) -> AnalyzedFile:
    source = Source("example.py", code.encode())
    return AnalyzedFile(source, index_of(source.parse(), source.path), Hints())


def named(path: Path) -> str:
    return path.relative_to(FIXTURES).as_posix()


def lines_run(code: str, line: int) -> set[int]:
    """The lines of the statements that are run for the values of the statement in a line."""
    analyzed = file_of(code)
    statement, place = next((each, at) for each, at in analyzed.index.places.items() if each.lineno == line)
    return {each.lineno for each in slices_of(place.function).of_statement(statement).run}


LEAVES_A_LOOP = """\
import torch
def f(items):
    x = None
    for item in items:
        x = torch.zeros(1)
        if item:
            break
        x = 1
    return x
"""
TELLS_BY_ITS_USE = """\
import torch
DEVICE = "cuda"
class Net(torch.nn.Module):
    def forward(self, x):
        y = mystery()
        z = y.detach()
        return y
"""
LEAVES_BY_CONTEXT = """\
import torch
def f(n, c):
    total = len(n)
    if c:
        total = torch.zeros(1, device="cuda")
        with torch.no_grad():
            return total
    print(total)
"""
LEAVES_IN_BOTH_ARMS = """\
import torch
def f(n, c, d):
    total = len(n)
    if c:
        total = torch.zeros(1, device="cuda")
        if d:
            return total
        else:
            raise ValueError
    print(total)
"""
LEAVES_A_TRY = """\
import torch
def f(n, c):
    total = len(n)
    if c:
        total = torch.zeros(1, device="cuda")
        try:
            return total
        finally:
            n.clear()
    print(total)
"""
PLACED_BY_VALUE = """\
import torch
def pick():
    return torch.device("cuda")
def f(devices, c):
    with pick():
        a = torch.zeros(1)
    with (torch.device("cuda") if c else torch.device("cpu")):
        b = torch.zeros(1)
    print(a, b)
"""
THROWS_AFTER_A_BRANCH = """\
import torch
def f(c):
    x = q = 0
    try:
        if c:
            q = 1
        x = torch.zeros(1, device="cuda")
        c()
    except ValueError:
        y = x
        print(y)
"""
TELLS_BY_LEAVING = """\
import torch
def f(c):
    x = torch.zeros(1, device="cuda") if c else 1.0
    if isinstance(x, (int, float)):
        with c:
            return None
    y = x
    return y
"""
SHAPES = {
    "break": LEAVES_A_LOOP,
    "use": TELLS_BY_ITS_USE,
    "context": LEAVES_BY_CONTEXT,
    "arms": LEAVES_IN_BOTH_ARMS,
    "try": LEAVES_A_TRY,
    "placed": PLACED_BY_VALUE,
    "leaving": TELLS_BY_LEAVING,
    "thrown": THROWS_AFTER_A_BRANCH,
}


class Two:
    """One file seen twice: where whole functions are run, and where nothing but the slices that are asked for."""

    def __init__(self, source: Source) -> None:
        self.index = index_of(source.parse(), source.path)
        self._runs_all = AnalyzedFile(source, self.index, Hints()).inference()
        self._runs_slices = AnalyzedFile(source, self.index, Hints()).inference()

    def whole(self, function: FunctionInfo) -> Frame:
        return self._runs_all.frame(function)

    def sliced(self, function: FunctionInfo, part: Slice) -> Frame:
        return self._runs_slices.frame(function, part)

    def compare(self) -> list[Value]:
        """Hold the value of each expression against that in a run of the whole function; the values."""
        compared = []
        for statement, place in self.index.places.items():
            whole = self.whole(place.function).values
            part = self.sliced(place.function, slices_of(place.function).of_statement(statement)).values
            own = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr)]
            for node in (inner for child in own for inner in ast.walk(child) if isinstance(inner, ast.expr)):
                if node in whole:
                    compared.append(whole[node])
                    assert part.get(node, UNKNOWN) == whole[node], f"line {node.lineno}: {ast.unparse(node)}"
        return compared


# A cycle may settle in more than one way, and a slice of it is another cycle.
ACYCLIC = [path for path in PROGRAMS if path.name != "cycles.py"]


@pytest.mark.parametrize("path", few(ACYCLIC, 24), ids=named)
def test_a_slice_gives_the_values_of_the_whole_function(path: Path) -> None:
    assert Two(Source(str(path), path.read_bytes())).compare()


@pytest.mark.parametrize("code", SHAPES.values(), ids=SHAPES)
def test_what_leaves_a_loop_or_tells_a_type_is_part_of_it(code: str) -> None:
    assert any(value.is_tensor for value in Two(Source("example.py", code.encode())).compare())


@pytest.mark.parametrize("path", few(PROGRAMS, 24), ids=named)
def test_arguments_alone_have_their_values_in_the_whole_function(path: Path) -> None:
    two = Two(Source(str(path), path.read_bytes()))
    for call, statement, function in (record for records in two.index.calls.values() for record in records):
        whole = two.whole(function).values
        for node in (call.func, *call.args):
            if node in whole:
                part = two.sliced(function, slices_of(function).of_parts(statement, (node,))).values
                assert part.get(node, UNKNOWN) == whole[node], f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", few(PROGRAMS, 24), ids=named)
def test_names_at_the_end_are_those_of_the_whole_function(path: Path) -> None:
    two = Two(Source(str(path), path.read_bytes()))
    for function in two.index.functions:
        for name, value in two.whole(function).env.items():
            if name.isidentifier() and slices_of(function).may_bind(name):
                end = two.sliced(function, slices_of(function).at_end(name)).env
                assert end.get(name) == value, f"{name} in {function.name}"


def slices_that_run(code: str, lines: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many slices of the functions run, where others ask for the values of the statements in these lines."""
    analyzed = file_of(code)
    inference, ran, run = analyzed.inference(), [], ValueInference._run
    at_line = {each.lineno: (place.function, each) for each, place in analyzed.index.places.items()}

    def noted(self: ValueInference, function: FunctionInfo, bound: object, part: Slice | None) -> Frame:
        ran.append(part)
        return run(self, function, bound, part)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ValueInference, "_run", noted)
        patch.setattr(QueryCache, "depth", 1)  # as in a query: on their own, they would make the whole function run
        for line in lines:
            assert inference.values_of(*at_line[line])
    return len(ran)


STRAIGHT = "def f(a):\n    x = a + 1\n    y = x + 1\n    z = y + 1\n    return z\n"
LOSES_TRACK = """\
def f(a):
    x = a
    p = q = r = s = t = u = v = ""
    for i in a:
        p, q, r, s, t, u, v = q, r, s, t, u, v, 1
    return x, p
"""


def test_what_a_wider_slice_has_run_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slices_that_run(STRAIGHT, (5, 4, 3, 2), monkeypatch) == 1
    assert slices_that_run(STRAIGHT, (2, 3, 4, 5), monkeypatch) == 4


def test_a_slice_whose_loop_forgot_what_it_changes_serves_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slices_that_run(LOSES_TRACK, (6, 2), monkeypatch) == 2


def test_what_a_value_does_not_rest_on_is_left_out() -> None:
    code = "def f(a, b):\n    x = a + 1\n    y = b + 1\n    log(y)\n    return x\n"
    assert lines_run(code, 5) == {2, 5}


def test_other_attributes_of_the_object_are_left_out() -> None:
    code = "class C:\n    def f(self):\n        self.a = 1\n        self.b = g()\n        return self.a\n"
    assert lines_run(code, 5) == {3, 5}


@pytest.mark.parametrize(
    "change", ["x.append(1)", "x[0] = 1", "fill(x)", "x += y", "x.clear(); x.extend(y)", "for x in y: pass", "del x"]
)
def test_what_changes_a_value_is_run(change: str) -> None:
    assert lines_run(f"def f(y):\n    x = []\n    {change}\n    return x\n", 4) >= {2, 3, 4}


def test_a_test_that_leaves_tells_what_the_value_is_behind_it() -> None:
    code = "def f(x, y):\n    if not isinstance(x, int):\n        return 0\n    if y:\n        return 1\n    return x\n"
    assert lines_run(code, 6) == {2, 6}


def test_what_a_function_does_not_return_is_not_run_for_a_call_of_it() -> None:
    analyzed = file_of("def f(a):\n    log(a)\n\ndef g(a):\n    log(a)\n    return 1\n")
    silent, giving = (slices_of(function).of_results() for function in analyzed.index.functions[1:])
    assert not silent.run
    assert [statement.lineno for statement in giving.run] == [6]
    assert "a" not in giving.names


def test_class_bodies_in_a_function_are_told_apart() -> None:
    """What one class binds may be what another one reads: all that binds the name is run, in whichever class."""
    body = "    class C{0}:\n        for x in loader:\n            loss = model(x).sum()\n            print(loss)\n"
    code = "def main(model, loader):\n" + "    x = 1\n" * 600 + "".join(map(body.format, range(40)))
    analyzed = file_of(code)
    (main,) = (each for each in analyzed.index.functions if each.name == "main")
    sums = [record.call for record in main.calls_made if record.call.args == []]
    shown = main.calls_made[-1].statement
    values = analyzed.inference().frame(main, slices_of(main).of_statement(shown)).values
    assert len(sums) == 40
    assert all(call in values for call in sums)
