"""Places that run only with an option, of an object or of a call, which is off by default and which nothing sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.engine.options import MOST_STEPS, Option, Spot, tests, truth

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_MOST_CALLS = 3
"""Calls that are followed upwards from one beside the way."""

_MOST_CALLERS = 10
"""Calls of one function that are looked at."""


class Off(NamedTuple):
    """The option that is off, and the evidence."""

    name: str
    because: Because


def off_by_default(way: Sequence[Link]) -> Off | None:
    """The default that keeps the place from running, in its function or in those that alone lead to it."""
    below: FunctionInfo | None = None
    for link in way:
        if below is not None and not _is_alone(link, below):
            return None
        below = link.model.place_of(link.statement).function
        option = _keeping(link.model, below, link.statement) or _unmade(link.model, below)
        if option is not None and option.default is not None:
            text = f"this does not run with the default of `{option.name}`, and no call that was found sets another"
            return Off(option.name, Because(option.default.lineno, text, option.path))
    return None


def _is_alone(link: Link, below: FunctionInfo) -> bool:
    """Whether what else calls the function runs in no step that is seen, or only with an option that is off."""
    others = [each for each in link.model.home(below).callers(below) if each.call is not link.node]
    return len(others) <= _MOST_CALLERS and all(_is_off(link.model, each, _MOST_CALLS) for each in others)


def _is_off(model: Model, record: CallRecord, calls: int) -> bool:
    home = model.home(record.function)
    if home.hot_path_of(record.statement, record.call) is None:
        return True
    if _keeping(home, record.function, record.statement) is not None:
        return True
    callers = home.callers(record.function) if calls > 0 else ()
    return 0 < len(callers) <= _MOST_CALLERS and all(_is_off(home, each, calls - 1) for each in callers)


def _keeping(model: Model, function: FunctionInfo, statement: ast.stmt) -> Option | None:
    """The option whose default keeps a statement from running, by the tests in its function."""
    spot = Spot(model, function)
    for test, wanted in tests(model.place_of(statement)):
        option = truth(spot, test, MOST_STEPS)
        if option is not None and option.default is not None and bool(option.value) is not wanted:
            return option
    return None


def _unmade(model: Model, function: FunctionInfo) -> Option | None:
    """The option without which nothing in the project makes an object whose method this is."""
    init = None if function.cls is None or function.self_name is None else model.method(function.cls, "__init__")
    made = None if init is None or init is function else model.home(init).constructions(init)
    if made is None or made.is_open or not 0 < len(made.records) <= _MOST_CALLERS:
        return None
    found = [_keeping(model.home(each.function), each.function, each.statement) for each in made.records]
    return None if None in found else found[0]
