"""Starred arguments: what `f(*xs, **options)` passes for each parameter of a function of the program."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.model.syntax.names import positional_of
from torchperf_lint.model.values.tensors import element_of, element_of_mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo


def is_starred(call: ast.Call) -> bool:
    """Whether the call has an argument `*xs` or `**options`."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)


def spread(
    function: FunctionInfo, bound: int, call: ast.Call, value_of: Callable[[ast.expr], Value]
) -> tuple[list[Value], dict[str, Value]]:
    """The positional values and the keywords of a call with starred arguments.

    `bound` parameters come from elsewhere, such as `self`. What a list of unknown length may fill is its element where
    the parameter has no default, and else unknown; the same holds for a mapping of unknown keys.
    """
    assert function.arguments is not None
    named = positional_of(function.arguments)[bound:]
    arguments, element = _in_order(call, value_of)
    keywords = {each.arg: value_of(each.value) for each in call.keywords if each.arg is not None}
    held: Value | None = None
    for each in call.keywords:
        if each.arg is None:
            mapping = value_of(each.value)
            if has_known_keys(mapping):
                keywords.update((str(key), value) for key, value in mapping.items or ())
            else:
                held = element_of_mapping(mapping)
    if element is not None and function.arguments.vararg is not None and len(arguments) >= len(named):
        arguments.append(element)
    elif element is not None:
        for name in named[len(arguments) :]:
            keywords.setdefault(name, UNKNOWN if name in function.defaults or held is not None else element)
    if held is not None:
        for name in [*named[len(arguments) :], *(each.arg for each in function.arguments.kwonlyargs)]:
            keywords.setdefault(name, UNKNOWN if name in function.defaults else held)
    return arguments, keywords


def _in_order(call: ast.Call, value_of: Callable[[ast.expr], Value]) -> tuple[list[Value], Value | None]:
    """The positional values as far as their number is known, and the element of what follows; None if nothing does."""
    arguments: list[Value] = []
    for place, each in enumerate(call.args):
        if not isinstance(each, ast.Starred):
            arguments.append(value_of(each))
            continue
        held = value_of(each.value)
        items = held.items if held.kind is Kind.CONTAINER and held.ref in ("list", "tuple") else None
        if items is None or any(key != position for position, (key, _) in enumerate(items)):
            return arguments, element_of(held) if place == len(call.args) - 1 else UNKNOWN
        arguments += [value for _, value in items]
    return arguments, None


def has_known_keys(mapping: Value) -> bool:
    """Whether it is a dict all of whose keys are known strings."""
    if mapping.kind is not Kind.CONTAINER or mapping.ref != "dict" or mapping.items is None:
        return False
    return all(isinstance(key, str) for key, _ in mapping.items)
