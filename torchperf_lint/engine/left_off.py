"""Branches that the project's defaults leave out: a parameter, an attribute or an option that nothing turns on."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Place

_JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)


class LeftOff(NamedTuple):
    """Why a branch is not run by default; `is_seen`: there are calls in the code, and all of them leave it at that."""

    because: Because
    is_seen: bool


class _Default(NamedTuple):
    name: str
    value: object
    row: int
    is_seen: bool


def left_off(model: Model, statement: ast.stmt) -> LeftOff | None:
    """The first condition around a statement that is false by default, where nothing in the code sets it."""
    place = model.place_of(statement)
    for test, wanted in itertools.islice(_conditions(place), bounds.MOST_CONDITIONS):
        used: list[_Default] = []
        truth = _truth(model, place.function, test, used)
        if truth is not None and truth is not wanted and used:
            first = used[0]
            text = f"`{first.name}` is {first.value!r} by default, and nothing in the code sets it"
            return LeftOff(Because(first.row, text, place.function.path), all(each.is_seen for each in used))
    return None


def _conditions(place: Place) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that lead to a statement within its function, and how they must turn out."""
    for each in place.outwards():
        for earlier in each.block[max(0, each.position - bounds.MOST_CONDITIONS) : each.position]:
            if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], _JUMPS):
                yield earlier.test, False
        if isinstance(each.parent, ast.If):
            yield each.parent.test, each.field == "body"


def _truth(model: Model, function: FunctionInfo, test: ast.expr, used: list[_Default]) -> bool | None:
    """Whether the test is true where all stays at its default; None if defaults do not decide it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(model, function, test.operand, used)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        for part in test.values:
            own: list[_Default] = []
            if _truth(model, function, part, own) is decisive:
                used += own
                return decisive
        return None
    asked, is_none = _asked_for_none(model, function, test)
    default = _default(model, function, asked)
    if default is None:
        return None
    used.append(default)
    return bool(default.value) if is_none is None else (default.value is None) is is_none


def _asked_for_none(model: Model, function: FunctionInfo, test: ast.expr) -> tuple[ast.expr, bool | None]:
    """`x` of `x is None`, `x is not None` and `exists(x)`, and whether None is what is asked for; else the test."""
    if isinstance(test, ast.Call) and len(test.args) == 1 and not test.keywords:
        called = model.value_in(function, test.func).function
        body = () if called is None or called.is_module else called.body
        if called is not None and len(body) == 1 and isinstance(body[0], ast.Return) and called.parameter_names:
            inner = body[0].value
            asked, is_none = (inner, None) if inner is None else _of_none(inner)
            if isinstance(asked, ast.Name) and is_none is not None and asked.id == called.parameter_names[0]:
                return test.args[0], is_none
    return _of_none(test)


def _of_none(test: ast.expr) -> tuple[ast.expr, bool | None]:
    is_plain = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant)
    if is_plain and test.comparators[0].value is None and isinstance(test.ops[0], (ast.Is, ast.IsNot)):  # type: ignore[attr-defined]
        return test.left, isinstance(test.ops[0], ast.Is)  # type: ignore[attr-defined]
    return test, None


def _default(model: Model, function: FunctionInfo, node: ast.expr) -> _Default | None:
    """What a parameter, an attribute or an option is by default, if nothing in the code gives it another value."""
    if isinstance(node, ast.Name):
        return _of_parameter(model, function, node.id)
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    if node.value.id == function.self_name and function.cls is not None:
        return _of_attribute(model, function.cls, node.attr)
    return _of_option(model, node.attr) if node.value.id in ("args", "opt", "opts", "options") else None


def _of_parameter(model: Model, function: FunctionInfo, name: str) -> _Default | None:
    default = function.defaults.get(name)
    if not isinstance(default, ast.Constant) or function.bound_names.count(name) != 1:
        return None
    home = model.home(function)
    calls = home.possible_callers(function)
    if home.given_away(function) or not all(_leaves(function, each, name) for each in calls):
        return None
    for there in home.with_neighbours:
        if any(_passes(record, name, default) for record in there.all_calls):
            return None
    return _Default(name, default.value, default.lineno, bool(calls))


def _leaves(function: FunctionInfo, record: CallRecord, name: str) -> bool:
    """Whether a call is seen to leave a parameter at its default."""
    return given_for(function, record.call, name) is function.defaults[name]


def _passes(record: CallRecord, name: str, default: ast.Constant) -> bool:
    """Whether a call gives a keyword of the name another value."""
    given = next((each.value for each in record.call.keywords if each.arg == name), default)
    return not isinstance(given, ast.Constant) or given.value != default.value


def _of_attribute(model: Model, cls: ClassInfo, name: str) -> _Default | None:
    """The default of the constructor's parameter that alone is stored in the attribute."""
    home = model.home(cls)
    stores = [store for each in home.lineage(cls) for store in each.attributes.get(name, ())]
    init = cls.methods.get("__init__")
    if init is None or len(stores) != 1 or stores[0].function is not init:
        return None
    for statement in init.statements:
        if isinstance(statement, ast.Assign) and statement.targets == [stores[0].target]:
            value = statement.value
            return _of_parameter(home, init, value.id) if isinstance(value, ast.Name) else None
    return None


def _of_option(model: Model, name: str) -> _Default | None:
    """The default of an option of the command line: `add_argument("--fast", action="store_true")`."""
    for record in model.calls_named("add_argument"):
        call = record.call
        flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if all(flag.lstrip("-").replace("-", "_") != name for flag in flags):
            continue
        given = {each.arg: each.value for each in call.keywords}
        action, default = given.get("action"), given.get("default")
        if default is None and isinstance(action, ast.Constant) and action.value == "store_true":
            return _Default(f"--{name}", False, call.lineno, is_seen=False)
        if isinstance(default, ast.Constant) and last_name(call.func) == "add_argument":
            return _Default(f"--{name}", default.value, call.lineno, is_seen=False)
    return None
