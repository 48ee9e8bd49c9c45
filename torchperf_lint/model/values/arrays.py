"""What is known of NumPy's arrays: whether they have dimensions, as an index that is copied to the device has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import numpy_api
from torchperf_lint.model.domain.values import NONE, Kind, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ARRAY = Value(Kind.NUMPY, scalar=False)
"""An array of at least one dimension."""
_EITHER = Value(Kind.NUMPY)
"""An array, or a number of NumPy's."""


def of_function(ref: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
    """The result of a function of NumPy that returns one array."""
    if ref in numpy_api.GIVE_DIMENSIONS or _is_sized(ref, arguments, keywords):
        return ARRAY
    if ref in numpy_api.OF_LISTS and arguments:
        return ARRAY if _has_dimensions(arguments[0]) else _EITHER
    if ref in numpy_api.ELEMENTWISE or ref == "numpy.where":
        return joined(*arguments)
    return _EITHER


def _is_sized(ref: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> bool:
    """Whether a function that draws is given how many numbers to draw."""
    position = numpy_api.POSITION_OF_SIZE.get(ref)
    if position is None:
        return False
    size = arguments[position] if len(arguments) > position else keywords.get("size", NONE)
    return size.kind is Kind.NUMBER or (size.kind is Kind.CONTAINER and bool(size.items))


def of_method(base: Value, name: str, arguments: Sequence[Value]) -> Value:
    """The result of a method of an array, or of a generator, which has the functions that draw."""
    if f"numpy.random.{name}" in (*numpy_api.GIVE_DIMENSIONS, *numpy_api.POSITION_OF_SIZE):
        return of_function(f"numpy.random.{name}", arguments, {})
    shapes = [each for each in arguments if each.kind is not Kind.CONTAINER or each.items]  # `()` is no dimension
    if name in numpy_api.FLATTEN or (name == "reshape" and shapes):
        return ARRAY
    return base if name in numpy_api.KEEP_DIMENSIONS else _EITHER


def joined(*values: Value) -> Value:
    """What arithmetic and comparisons of arrays, numbers and lists give: the dimensions of all of them."""
    return ARRAY if any(map(_has_dimensions, values)) else _EITHER


def entry(index: Value) -> Value:
    """An element or a selection of an array, by an index without slices."""
    if index.kind is Kind.CONTAINER and index.ref == "tuple":
        parts = [each for _, each in index.items or ()] or ([] if index.element is None else [index.element])
        return joined(*parts)
    return ARRAY if _has_dimensions(index) else _EITHER


def sliced(base: Value, index: ast.expr) -> Value | None:
    """The part of an array that an index with slices takes; None for another index."""
    if isinstance(index, ast.Slice):
        return base
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return ARRAY if any(isinstance(part, ast.Slice) for part in parts) else None


def _has_dimensions(value: Value) -> bool:
    is_list = value.kind is Kind.CONTAINER and value.ref in ("list", "range", "tuple")
    return is_list or (value.kind is Kind.NUMPY and value.scalar is False)
