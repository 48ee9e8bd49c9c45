"""Places that run only with an option, of an object or of a call, which is off by default and which nothing sets."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.engine.option_names import OF_TRAINING
from torchperf_lint.engine.option_tests import tests, tests_inside
from torchperf_lint.engine.options import CALLED_BY_OTHERS, MOST_STEPS, Option, Spot, is_handed_over, truth
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_MOST_CALLS = 3
"""Calls that are followed upwards from one beside the way."""

_MOST_CALLERS = 10
"""Calls of one function that are looked at."""


class Off(NamedTuple):
    """The option that is off, its default, and the evidence."""

    name: str
    default: ast.expr
    because: Because


def off_by_default(way: Sequence[Link]) -> Off | None:
    """The default that keeps the place from running, in its function or in those that alone lead to it."""
    below: FunctionInfo | None = None
    for link in way:
        if below is not None and not _is_alone(link, below):
            return None
        below = link.model.place_of(link.statement).function
        option = _keeping(link.model, below, link.statement, link.node) or _unmade(link.model, below)
        if option is not None and option.default is not None:
            return _off(option, option.default)
    last = way[-1] if way else None
    option = None if last is None or below is None else _above(last.model, below, _MOST_CALLS)
    return None if option is None or option.default is None else _off(option, option.default)


def _off(option: Option, default: ast.expr) -> Off:
    text = f"this does not run with the default of `{option.name}`, and no call that was found sets another"
    return Off(option.name, default, Because(default.lineno, text, option.path))


def _above(model: Model, function: FunctionInfo, calls: int) -> Option | None:
    """The option whose default keeps all callers of a function with a loop of its own from calling it.

    Not one that asks whether to train: who trains sets it.
    """
    home = model.home(function)
    by_others = function.name in CALLED_BY_OTHERS or is_handed_over(home, function) or home.may_be_value(function)
    callers = () if by_others or calls == 0 else home.callers(function)
    first: Option | None = None
    for each in callers if len(callers) <= _MOST_CALLERS else ():
        there = home.home(each.function)
        found = _keeping(there, *_where(each)) or _above(home, each.function, calls - 1)
        if found is None or not OF_TRAINING.isdisjoint(found.name.split("_")):
            return None
        first = first or found
    return first


def _is_alone(link: Link, below: FunctionInfo) -> bool:
    """Whether what else calls the function runs in no step that is seen, or only with an option that is off."""
    others = [each for each in link.model.home(below).callers(below) if each.call is not link.node]
    return len(others) <= _MOST_CALLERS and all(_is_off(link.model, each, _MOST_CALLS) for each in others)


def _is_off(model: Model, record: CallRecord, calls: int) -> bool:
    home = model.home(record.function)
    if home.hot_path_of(record.statement, record.call) is None:
        return True
    if _keeping(home, *_where(record)) is not None:
        return True
    callers = home.callers(record.function) if calls > 0 else ()
    return 0 < len(callers) <= _MOST_CALLERS and all(_is_off(home, each, calls - 1) for each in callers)


def _where(record: CallRecord) -> tuple[FunctionInfo, ast.stmt, ast.expr]:
    return record.function, record.statement, record.call


def _keeping(model: Model, function: FunctionInfo, statement: ast.stmt, node: ast.expr | None) -> Option | None:
    """The option whose default keeps a part of a statement from running, by the tests in its function."""
    spot = Spot(model, function)
    inside = () if node is None else tests_inside(function, statement, node)
    for test, wanted in (*inside, *tests(model.place_of(statement))):
        option = None if _asks_to_train(test) else truth(spot, test, MOST_STEPS)
        if option is not None and option.default is not None and bool(option.value) is not wanted:
            return option
    return None


def _asks_to_train(test: ast.expr) -> bool:
    """Whether a test chooses what trains, `task == "train"`: who trains sets that."""
    texts = (each.value for each in subtree(test) if isinstance(each, ast.Constant))
    return any(isinstance(each, str) and not OF_TRAINING.isdisjoint(each.lower().split("_")) for each in texts)


def _unmade(model: Model, function: FunctionInfo) -> Option | None:
    """The option without which nothing in the project makes an object whose method this is."""
    init = None if function.cls is None or function.self_name is None else model.method(function.cls, "__init__")
    made = None if init is None or init is function else model.home(init).constructions(init)
    if made is None or made.is_open or not 0 < len(made.records) <= _MOST_CALLERS:
        return None
    found = [_keeping(model.home(each.function), *_where(each)) for each in made.records]
    is_decided = all(each is not None and not _is_none(each) for each in found)
    return found[0] if is_decided else None


def _is_none(option: Option) -> bool:
    """Whether the default is None: the object may well be made for what is given there."""
    return isinstance(option.default, ast.Constant) and option.default.value is None
