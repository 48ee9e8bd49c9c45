"""Indices, sizes and texts for which the host waits, or the device gets a copy, by the values of their parts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_lint.model.domain.values import Value

_BY_PLACE = ("list", "tuple")
_SIZES = frozenset({"end", "n", "repeats", "shape", "size", "sizes", "start", "steps"})


def is_there(value: Value) -> bool:
    """Whether a value is surely a tensor on the device, or holds such."""
    is_proven = not any(isinstance(step, Unproven) for step in value.because)
    return value.device.on_accelerator and value.holds_tensors and not value.mixed and is_proven


def is_one_there(value: Value) -> bool:
    """Whether a value is surely one tensor on the device: a batch's own entry may be a number."""
    return is_there(value) and value.is_tensor and value.origin is None


def reads_index(node: ast.Subscript, statement: ast.stmt, values: Mapping[ast.expr, Value]) -> bool:
    """Whether the host waits for an index: a number on the device, or how many elements a mask there chooses."""
    held = values.get(node.value, UNKNOWN)
    is_sequence = held.kind is Kind.STRING or (held.kind is Kind.CONTAINER and held.ref in _BY_PLACE)
    for part in _parts(node):
        value = values.get(part, UNKNOWN)
        if isinstance(part, ast.Slice):
            bounds = (values.get(each, UNKNOWN) for each in (part.lower, part.upper, part.step) if each is not None)
            if (is_sequence or held.holds_tensors) and any(map(is_one_there, bounds)):
                return True
        elif value.dtype == "bool" and is_there(value) and value.is_tensor:
            if isinstance(node.ctx, ast.Load) or (held.is_tensor and _is_counted(node, statement, values)):
                return True
        elif is_one_there(value) and (is_sequence or (is_there(held) and value.scalar is True)):
            return True
    return False


def _is_counted(node: ast.Subscript, statement: ast.stmt, values: Mapping[ast.expr, Value]) -> bool:
    """Whether a write through a mask counts its elements: a number of Python is filled in without."""
    if isinstance(statement, ast.AugAssign):
        return statement.target is node
    is_single = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.targets[0] is node
    return is_single and isinstance(statement, ast.Assign) and is_one_there(values.get(statement.value, UNKNOWN))


def sends_index(node: ast.Subscript, values: Mapping[ast.expr, Value]) -> bool:
    """Whether a tensor on the device is indexed by what lies on the host, which is copied there with a wait."""
    held = values.get(node.value, UNKNOWN)
    return is_one_there(held) and any(_is_row_of_host(values.get(part, UNKNOWN)) for part in _parts(node))


def _is_row_of_host(value: Value) -> bool:
    """Whether the value is a list of integers, or an array or a host tensor with dimensions that holds integers."""
    if value.kind is Kind.CONTAINER:
        is_plain = all(each.kind is Kind.NUMBER for _, each in value.items or ())
        return value.ref == "list" and value.element is not None and value.element.kind is Kind.NUMBER and is_plain
    has_dimensions = value.scalar is False or value.vector is True
    is_host = value.kind is Kind.NUMPY or (value.is_tensor and value.device is Device.CPU)
    return is_host and has_dimensions and (value.dtype or "").startswith("int")


def _parts(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def reads_size(name: str, call: ast.Call, first: int, values: Mapping[ast.expr, Value]) -> bool:
    """Whether a function or method of this name takes a size from a number on the device.

    `first` is the position of the first argument that may be one; of those by name, some are.
    """
    given = [*call.args[first:], *(each.value for each in call.keywords if each.arg in _SIZES)]
    sizes = (values.get(each, UNKNOWN) for each in _flat(given)) if name in torch_api.NEEDS_SIZES else ()
    return any(is_one_there(each) and each.scalar is True for each in sizes)


def _flat(given: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """The arguments, and the items of those that are written as tuples or lists."""
    for each in given:
        yield from each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each]
