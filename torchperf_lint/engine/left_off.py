"""Branches that the project's calls leave out: behind a parameter that all of them leave at its default."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Place

_JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_CALLED_BY_OTHERS = frozenset({"forward", "__call__", "__init__"})


class _Default(NamedTuple):
    name: str
    value: object
    row: int


def left_off(model: Model, statement: ast.stmt) -> Because | None:
    """The first condition around a statement that is false by default, where all calls leave it so."""
    place = model.place_of(statement)
    for test, wanted in itertools.islice(_conditions(place), bounds.MOST_CONDITIONS):
        used: list[_Default] = []
        truth = _truth(model, place.function, test, used)
        if truth is not None and truth is not wanted and used:
            first = used[0]
            text = f"`{first.name}` is {first.value!r} by default, and no call in the code passes it"
            return Because(first.row, text, place.function.path)
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
    default = _of_parameter(model, function, asked.id) if isinstance(asked, ast.Name) else None
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


def _of_parameter(model: Model, function: FunctionInfo, name: str) -> _Default | None:
    """The default of a parameter, if there are calls of the function and all leave it out.

    What frameworks call, such as `forward`, and what stands for an object has other calls than those in the code.
    """
    default = function.defaults.get(name)
    if (
        not isinstance(default, ast.Constant)
        or function.bound_names.count(name) != 1
        or function.name in _CALLED_BY_OTHERS
    ):
        return None
    if any(isinstance(node, ast.Nonlocal) and name in node.names for node in subtree(function.node)):
        return None
    home = model.home(function)
    calls = home.possible_callers(function)
    if not calls or home.given_away(function) or not all(_leaves(function, each, name) for each in calls):
        return None
    for there in home.with_neighbours:
        if any(_passes(record, name, default) for record in there.all_calls):
            return None
    return _Default(name, default.value, default.lineno)


def _leaves(function: FunctionInfo, record: CallRecord, name: str) -> bool:
    """Whether a call is seen to leave a parameter at its default."""
    return given_for(function, record.call, name) is function.defaults[name]


def _passes(record: CallRecord, name: str, default: ast.Constant) -> bool:
    """Whether a call gives a keyword of the name another value."""
    given = next((each.value for each in record.call.keywords if each.arg == name), default)
    return not isinstance(given, ast.Constant) or given.value != default.value
