"""Dicts and queues: what `dict(...)` and the classes of `collections` hold."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import NUMBER, UNKNOWN, Kind, Value, container, join_all
from torchperf_lint.model.values import records
from torchperf_lint.model.values.tensors import element_of, element_of_mapping, value_of_pair

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ExpressionValues

_EMPTY = {"builtins.list": "list", "builtins.set": "set", "builtins.dict": "dict"}
_ZERO = {"builtins.int": "int", "builtins.float": "float", "builtins.bool": "bool"}


def mapping(arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`dict(a, b=c)`, `OrderedDict([("a", x)])`."""
    held = [element_of_mapping(argument) for argument in arguments] + list(keywords.values())
    known = _items(arguments[0]) if len(arguments) == 1 else () if not arguments else None
    items = None if known is None or "**" in keywords else _merged(known, keywords)
    if not held and not keywords:
        return container(None, () if not arguments else None, "dict")
    is_empty = not keywords and all(value.kind is Kind.CONTAINER and value.element is None for value in arguments)
    return container(None if is_empty else join_all(held), items, "dict")


def _merged(known: tuple[tuple[object, Value], ...], keywords: dict[str, Value]) -> list[tuple[object, Value]]:
    held = dict(known)
    held.update(keywords)
    return list(held.items())


def _items(given: Value) -> tuple[tuple[object, Value], ...] | None:
    """The items of a dict, or of a list of pairs, if all keys are known."""
    if given.kind is not Kind.CONTAINER or given.items is None:
        return None
    if given.ref == "dict":
        return given.items
    if value_of_pair(given) is None:
        return None
    pairs = [dict(pair.items or ()) for _, pair in given.items]
    keys = [pair[0].constant if 0 in pair else None for pair in pairs]
    if any(key is None for key in keys):
        return None
    return tuple((key, pair.get(1, UNKNOWN)) for key, pair in zip(keys, pairs, strict=True))


def made(
    evaluator: ExpressionValues, node: ast.Call, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value | None:
    """An object of `collections`; None if it is of another class."""
    if name == "OrderedDict":
        return mapping(arguments, keywords)
    if name == "defaultdict":
        return _with_default(evaluator, node, arguments)
    if name == "Counter":
        return container(NUMBER, ref="dict")
    if name == "deque":
        return container(element_of(arguments[0]) if arguments else None)
    if name == "namedtuple":
        names = records.names_of(arguments)
        return None if names is None else Value(Kind.CLASS, constant=tuple(names))
    return None


def _with_default(evaluator: ExpressionValues, node: ast.Call, arguments: list[Value]) -> Value:
    factory = arguments[0] if arguments else UNKNOWN
    entry = UNKNOWN
    if factory.kind is Kind.LIBRARY and factory.ref in _EMPTY:
        entry = container(None, ref=_EMPTY[factory.ref])
    elif factory.kind is Kind.LIBRARY and factory.ref in _ZERO:
        entry = Value(Kind.NUMBER, dtype=_ZERO[factory.ref])
    elif factory.kind is Kind.CLASS and factory.cls is not None:
        entry = evaluator.inference.instance(factory.cls)
    elif node.args and isinstance(node.args[0], ast.Lambda):
        entry = evaluator.frame.values.get(node.args[0].body, UNKNOWN)
    if len(arguments) > 1:
        entry = join_all([entry, element_of_mapping(arguments[1])])
    return container(entry, ref="dict")
