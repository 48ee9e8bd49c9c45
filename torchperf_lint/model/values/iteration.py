"""Calls that iterate: `zip`, `enumerate`, the functions of `itertools`, and choices of `random`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import INTEGER, NUMBER, UNKNOWN, Kind, Value, container, join, join_all
from torchperf_lint.model.values.tensors import element_of, tensor_from

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRING = frozenset({"zip", "enumerate"})
_CHOOSE = frozenset("permutations combinations combinations_with_replacement batched".split())
_DRAWS = frozenset("random uniform gauss normalvariate randint randrange triangular betavariate getrandbits".split())
_SAME_ITEMS = {"islice": 0, "cycle": 0, "compress": 0, "dropwhile": 1, "takewhile": 1, "filterfalse": 1}
"""Functions that yield the items of one argument unchanged, with that argument's position."""


def tuple_of(values: Sequence[Value]) -> Value:
    """A tuple of these values."""
    return container(join_all(values) if values else None, list(enumerate(values)), "tuple")


def paired(node: ast.Call, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`zip(a, b)`, `enumerate(a)`, `zip_longest(a, b)`: tuples, known by position up to the first starred argument."""
    if name == "enumerate":
        return container(tuple_of([INTEGER, element_of(arguments[0] if arguments else UNKNOWN)]))
    items = [element_of(argument) for argument in arguments]
    if "fillvalue" in keywords:
        items = [join(item, keywords["fillvalue"]) for item in items]
    if _is_starred(node):
        return container(container(join_all(items), ref="tuple"))
    return container(tuple_of(items))


def iterated(node: ast.Call, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """The result of a function of `itertools`."""
    first = arguments[0] if arguments else UNKNOWN
    item = element_of(first)
    if name in _SAME_ITEMS:
        place = _SAME_ITEMS[name]
        source = arguments[place] if place < len(arguments) else UNKNOWN
        return source if source.kind in (Kind.LOADER, Kind.CONTAINER, Kind.PYTREE) else UNKNOWN
    if name == "chain":
        return container(join_all([element_of(argument) for argument in arguments]))
    if name == "product":
        items = [element_of(argument) for argument in arguments]
        if "repeat" in keywords or _is_starred(node):
            return container(container(join_all(items), ref="tuple"))
        return container(tuple_of(items))
    if name in _CHOOSE:
        return container(container(item, ref="tuple"))
    if name == "zip_longest":
        return paired(node, name, arguments, keywords)
    if name == "pairwise":
        return container(tuple_of([item, item]))
    if name == "groupby":
        key = item if len(arguments) == 1 and not keywords else UNKNOWN
        return container(tuple_of([key, container(item)]))
    if name == "accumulate" and len(arguments) == 1 and "func" not in keywords:
        return container(NUMBER if item.kind is Kind.NUMBER else tensor_from([item]) if item.holds_tensors else UNKNOWN)
    if name == "repeat":
        return container(first)
    if name == "tee":
        return container(first if first.kind is Kind.LOADER else container(item))
    if name == "count":
        return container(INTEGER if not arguments and not keywords else NUMBER)
    return UNKNOWN


def chosen(name: str, first: Value) -> Value:
    """The result of a function of `random`: of `choice`, `choices` and `sample`, items of the first argument."""
    if name in ("choice", "choices", "sample"):
        item = element_of(first)
        return item if name == "choice" or item.kind is Kind.UNKNOWN else container(item)
    return NUMBER if name in _DRAWS else UNKNOWN


def _is_starred(node: ast.Call) -> bool:
    return any(isinstance(argument, ast.Starred) for argument in node.args)
