"""Evaluates chains of calls with their arguments' types: whether they reach a place in the innermost function."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import UNKNOWN
from torchperf_lint.model.frequency.branches import asks_types, parts
from torchperf_lint.model.syntax.call_sites import ImplicitCall
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.values import parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_lint.model.domain.frames import Env
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.frequency.branches import Step
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


def depends_on_types(statement: ast.stmt, function: FunctionInfo, steps: tuple[Step, ...]) -> bool:
    """Whether a type test guards the path, so that the arguments' types matter."""
    return asks_types(statement, function) or any(
        asks_types(step.record.statement, step.record.function) for step in steps[:-1]
    )


def arrives(
    home: Callable[[FunctionInfo], ValueQuestions],
    statement: ast.stmt,
    function: FunctionInfo,
    steps: tuple[Step, ...],
    node: ast.expr | None = None,
) -> bool:
    """False if the types of the arguments keep the program from the statement, or from this expression in it.

    `home` returns the inference of a function's file; `steps` leads outwards from the statement's function.
    """
    shown = list(itertools.takewhile(lambda step: step.shows, steps))
    given: Env | None = None  # None: nothing is known of this call
    for number in reversed(range(len(shown))):
        record = shown[number].record
        called = shown[number - 1].record.function if number else function
        if isinstance(record, ImplicitCall) or not _is_plain(record, called):
            given = None
            continue
        asked = (record.call.func, *record.call.args, *(keyword.value for keyword in record.call.keywords))
        values = _values(home(record.function), record, given, asked)
        if values is None:
            return False
        given = _bound(home(called), called, record.call, values)
    if given is None:
        return True
    wanted = (node,) if node is not None else tuple(each for each in parts(statement) if isinstance(each, ast.expr))
    return _reached(home(function), function, given, wanted) is not None


def _is_plain(record: CallRecord, called: FunctionInfo) -> bool:
    """Whether the call shows each parameter's argument: `f(x, y=z)`, `self.f(x)`."""
    call = record.call
    if last_name(call.func) != called.called_as or called.arguments is None:
        return False
    if called.cls is not None and not called.is_static and not _has_receiver(call, called):
        return False
    return not any(isinstance(each, ast.Starred) for each in call.args) and all(each.arg for each in call.keywords)


def _has_receiver(call: ast.Call, called: FunctionInfo) -> bool:
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return called.name == "__init__" or (isinstance(call.func, ast.Attribute) and not (owner or "")[:1].isupper())


def _values(
    inference: ValueQuestions, record: CallRecord, given: Env | None, asked: tuple[ast.expr, ...]
) -> Mapping[ast.expr, Value] | None:
    """The arguments' values in the call of the enclosing function; None if that call does not reach them."""
    function = record.function
    if given is None:
        values = inference.alone(lambda: inference.parts(record, *asked))
        return dict(zip(asked, values, strict=True))
    return _reached(inference, function, given, asked)


def _reached(
    inference: ValueQuestions, function: FunctionInfo, given: Env, wanted: tuple[ast.expr, ...]
) -> Mapping[ast.expr, Value] | None:
    """The values in such a call; None if it reaches none of the expressions but would with unknown arguments."""
    values = inference.in_call(function, given)
    if values is None:
        return {}
    if values.keys().isdisjoint(wanted):
        anything = {name: value if name == function.self_name else UNKNOWN for name, value in given.items()}
        if not (inference.in_call(function, anything) or values).keys().isdisjoint(wanted):
            return None
    return values


def _bound(inference: ValueQuestions, called: FunctionInfo, call: ast.Call, values: Mapping[ast.expr, Value]) -> Env:
    """The environment of the called function's parameters."""
    own = [parameters.own_object(inference, called)] if called.self_name is not None else []
    arguments = [values.get(each, UNKNOWN) for each in call.args]
    keywords = {each.arg: values.get(each.value, UNKNOWN) for each in call.keywords if each.arg}
    return parameters.bind(inference, called, [*own, *arguments], keywords)
