"""Records which tests a rule makes about one place, by watching the rule run.

Under `why`, the functions of rules and idioms run with Python's trace function. At each `if` that they decide about an
expression of the row, the recorder evaluates the parts of the test again, in the frame where it stands: the model's
answers do not depend on the order of questions, so each part has the value that it had. So no rule has to say why it is
silent, and a normal run pays nothing.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.syntax.site import Site
from torchperf_lint.syntax.tree import COMPREHENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    Place = Site | ast.expr | ast.stmt
    About = Callable[[object], "Place | None"]

_WATCHED = re.compile(r"/torchperf_lint/(rules/|idioms/|model/(sites|questions)\b)")
_CHANGES = frozenset("next pop add append remove update setdefault discard".split())
"""Names of calls that are not evaluated again: they change what they are asked about."""

_UNKNOWN = object()


class Part(NamedTuple):
    """A part of a test, with its value; `names` and `globals` are what the names in it mean."""

    node: ast.expr
    value: object
    names: dict[str, Any]
    function: FunctionShape

    def evaluate(self, node: ast.expr) -> object:
        """The value of another expression in the same frame; None if it cannot be told."""
        found = _evaluated(node, self.names)
        return None if found is _UNKNOWN else found


class Decision(NamedTuple):
    """A test about a place of the row, and how it went on: `refuses` if the place is dropped there.

    `place` is None for a test about the whole file, after which a rule looks at nothing.

    `parts` are the parts of the test that decided; `level` counts the tests that this one is part of.
    """

    place: Place | None
    parts: tuple[Part, ...]
    refuses: bool
    level: int
    function: FunctionShape
    row: int


class FunctionShape:
    """Where the tests and loops of a function stand."""

    def __init__(self, node: ast.AST, name: str, path: str) -> None:
        self.node = node
        self.name = name
        self.path = path
        self.parameters = _parameters(node)
        self.tests: dict[int, ast.If] = {}
        self.targets: dict[int, list[str]] = {}  # row -> the names that the loops around it bind, innermost first
        self.conditions: list[ast.expr] = []  # of a comprehension
        self.assigned: dict[str, ast.expr] = {}
        self.gates: set[ast.If] = set()  # tests of a generator in no loop, which end it
        self.final: set[ast.If] = set()  # those behind which nothing follows in the same pass or call
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            if isinstance(node, ast.FunctionDef):
                self._block(node.body, [], True)
                if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)):
                    self.gates = {each for each in node.body if isinstance(each, ast.If) and _leaves(each.body)}
        elif isinstance(node, COMPREHENSIONS):
            names = [each for generator in node.generators for each in _names_bound(generator.target)]
            self.conditions = [each for generator in node.generators for each in generator.ifs]
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                self.targets[row] = names

    def _block(self, block: list[ast.stmt], targets: list[str], final: bool) -> None:
        """Visit the statements of a block; `final` says that nothing follows the block."""
        for statement in block:
            self._visit(statement, targets, final and statement is block[-1])

    def _visit(self, statement: ast.stmt, targets: list[str], final: bool) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            return
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._assign(statement.targets[0], statement.value)
        for row in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
            self.targets[row] = targets
        if isinstance(statement, ast.If):
            for row in range(statement.test.lineno, (statement.test.end_lineno or 0) + 1):
                self.tests[row] = statement
            if final:
                self.final.add(statement)
        inner = targets
        if isinstance(statement, ast.For):
            inner = [*_names_bound(statement.target), *targets]
        is_loop = isinstance(statement, (ast.For, ast.While))
        for field in ("body", "orelse", "finalbody"):
            self._block(getattr(statement, field, []), inner if field == "body" else targets, final or is_loop)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other)


def _parameters(node: ast.AST) -> list[str]:
    if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
        return []
    arguments = node.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _names_bound(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


class _State:
    """A watched frame: the test that it is at, and how many tests of other frames wait for it."""

    __slots__ = ("function", "item", "level", "pending")

    def __init__(self, function: FunctionShape, level: int) -> None:
        self.function = function
        self.level = level
        self.pending: tuple[ast.If, Place | None] | None = None
        self.item: Place | None = None


class Recorder:
    """Records the decisions about places of the row while a function runs."""

    def __init__(self, about: About) -> None:
        """`about` says which place of the row an object is, or belongs to; None if it is another's."""
        self.decisions: list[Decision] = []
        self._about = about
        self._states: dict[FrameType, _State] = {}

    def watch(self, run: Callable[[], Any]) -> Any:
        """What the function returns, watched."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return run()
        finally:
            sys.settrace(before)
            self._states.clear()

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if event != "call" or not _is_watched(frame.f_code.co_filename):
            return None
        if frame not in self._states:
            function = _shape(frame.f_code)
            if function is None:
                return None
            self._states[frame] = _State(function, self._level_of(frame.f_back))
        return self._step

    def _level_of(self, caller: FrameType | None) -> int:
        while caller is not None:
            state = self._states.get(caller)
            if state is not None:
                return state.level + (caller.f_lineno in state.function.tests)
            caller = caller.f_back
        return 0

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        state = self._states[frame]
        row = frame.f_lineno
        if event == "line":
            self._conditions(frame, state)
            self._resolve(frame, state, row)
            test = state.function.tests.get(row)
            if test is not None and state.pending is None:
                place = self._place(frame, state.function, row)
                if place is not None and self._is_for_another(frame.f_back):
                    return self._step
                if place is not None or (test in state.function.gates and not state.level):
                    state.pending = test, place
        elif event == "return":
            self._conditions(frame, state)
            self._resolve(frame, state, None if not _yields(frame) else row)
        return self._step

    def _place(self, frame: FrameType, function: FunctionShape, row: int) -> Place | None:
        """The place of the row that the frame is at: an item of the innermost loop, or an argument."""
        names = frame.f_locals
        for name in (*function.targets.get(row, ()), *function.parameters):
            found = self._about(names.get(name))
            if found is not None:
                return found
        return None

    def _is_for_another(self, caller: FrameType | None) -> bool:
        """Whether a caller judges a site of another row, for which it looks at this one."""
        while caller is not None:
            state = self._states.get(caller)
            if state is not None:
                names = caller.f_locals
                for name in (*state.function.targets.get(caller.f_lineno, ()), *state.function.parameters):
                    if _holds_site(names.get(name)):
                        return self._about(names[name]) is None
            caller = caller.f_back
        return False

    def _resolve(self, frame: FrameType, state: _State, row: int | None) -> None:
        """Note how the test went that the frame was at; `row` is the next row, None if the function is left."""
        if state.pending is None:
            return
        test, place = state.pending
        if row is not None and test.test.lineno <= row <= (test.test.end_lineno or row):
            return  # another row of the same test
        state.pending = None
        taken = row is not None and test.body[0].lineno <= row <= (test.body[-1].end_lineno or 0)
        names = {**frame.f_globals, **frame.f_locals}
        parts = tuple(_deciding(test.test, taken, names, state.function))
        if taken:
            refuses = _leaves(test.body)
        else:
            refuses = test in state.function.final and not test.orelse and _holds_result(test)
        if place is None and not refuses:
            return
        self.decisions.append(Decision(place, parts, refuses, state.level, state.function, test.lineno))

    def _conditions(self, frame: FrameType, state: _State) -> None:
        """The conditions of a comprehension about the item that it has just looked at."""
        if not state.function.conditions:
            return
        place = self._place(frame, state.function, frame.f_lineno)
        if place is None or place is state.item or self._is_for_another(frame.f_back):
            return
        state.item = place
        names = {**frame.f_globals, **frame.f_locals}
        for condition in state.function.conditions:
            value = _evaluated(condition, names)
            if value is _UNKNOWN:
                return
            if not value:
                parts = tuple(_deciding(condition, False, names, state.function))
                self.decisions.append(Decision(place, parts, True, state.level, state.function, condition.lineno))
                return


def _holds_site(thing: object) -> bool:
    return isinstance(thing, Site) or (isinstance(thing, tuple) and any(isinstance(each, Site) for each in thing))


def _is_watched(path: str) -> bool:
    return _WATCHED.search(path.replace("\\", "/")) is not None


def _yields(frame: FrameType) -> bool:
    """Whether a generator is left for a time only: it stands at a `yield`."""
    code, last = frame.f_code.co_code, frame.f_lasti
    return bool(frame.f_code.co_flags & 0x20) and 0 <= last < len(code) and code[last] in _YIELDS


def _opcodes_of_yield() -> frozenset[int]:
    import opcode

    return frozenset(opcode.opmap[name] for name in ("YIELD_VALUE", "YIELD_FROM", "SEND") if name in opcode.opmap)


_YIELDS = _opcodes_of_yield()


def _leaves(block: list[ast.stmt]) -> bool:
    """Whether a branch drops the place: it goes on with the next one, or returns nothing."""
    last = block[-1]
    if isinstance(last, ast.Return):
        value = last.value
        is_empty = isinstance(value, (ast.Tuple, ast.List)) and not value.elts
        return value is None or is_empty or (isinstance(value, ast.Constant) and not value.value)
    return isinstance(last, (ast.Continue, ast.Break))


def _holds_result(test: ast.If) -> bool:
    """Whether the branch that was not taken would have reported or kept the place."""
    for statement in test.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Return)):
                return True
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
                return True
    return False


def _deciding(test: ast.expr, result: bool, names: dict[str, Any], function: FunctionShape) -> Iterator[Part]:
    """The parts of a test that made it true or false."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _deciding(test.operand, not result, names, function)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is result:
            for each in test.values:
                yield from _deciding(each, result, names, function)
            return
        for each in test.values:
            value = _evaluated(each, names)
            if value is _UNKNOWN or bool(value) is result:
                yield from _deciding(each, result, names, function)
                return
    elif isinstance(test, ast.IfExp):
        chosen = test.body if _evaluated(test.test, names) else test.orelse
        yield from _deciding(chosen, result, names, function)
    else:
        value = _evaluated(test, names)
        yield Part(test, result if value is _UNKNOWN else value, names, function)


def _evaluated(node: ast.expr, names: dict[str, Any]) -> object:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)):
            return _UNKNOWN
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _CHANGES:
                return _UNKNOWN
    try:
        return eval(compile(ast.Expression(node), "<why>", "eval"), dict(names))
    except Exception:
        return _UNKNOWN


@functools.cache
def _functions(path: str) -> dict[tuple[int, str], list[ast.AST]]:
    """The functions and comprehensions of a module by first row and name."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    found: dict[tuple[int, str], list[ast.AST]] = {}
    for node in ast.walk(tree):
        name = _CODE_NAMES.get(type(node)) or (node.name if isinstance(node, ast.FunctionDef) else None)
        if name is not None:
            row = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])  # type: ignore[attr-defined]
            found.setdefault((row, name), []).append(node)
    return found


_CODE_NAMES: dict[type, str] = {
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
    ast.Lambda: "<lambda>",
}


@functools.cache
def _shape(code: CodeType) -> FunctionShape | None:
    nodes = _functions(code.co_filename).get((code.co_firstlineno, code.co_name), ())
    for node in nodes:
        generators: list[ast.comprehension] = getattr(node, "generators", [])
        if not generators or set(_names_bound(generators[0].target)) <= {*code.co_varnames, *code.co_cellvars}:
            return FunctionShape(node, code.co_name, code.co_filename)
    return None
