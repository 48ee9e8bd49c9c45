"""`x[i]` with a number `i` on the device: an index of one place, which the device looks up, takes its place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.aliases import memory_of
from torchperf_lint.idioms.layout import is_written_through
from torchperf_lint.idioms.sync.indexing import Use
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model

_TITLE = "look the element up on the device"
_ASSUMES = (
    "what is indexed is a tensor, the index is an int64 or int32 in range, and nothing writes to the tensor through "
    "the element that is read"
)
_INDEX_DTYPES = ("int64", "int32")
"""Those of tensors that torch takes for places: a number of another dtype is one for the host alone, or a mask."""

_TAKES_VALUES = (ast.BinOp, ast.UnaryOp, ast.Compare)


def looked_up(model: Model, place: Costly) -> Fix | NoFix:
    """`x[i.reshape(1)][0]` for `x[i]`, and `x[i.reshape(1)] += v`: a copy of the element, which nobody waits for."""
    indexed, node = place.indexed, place.site.node
    if indexed is None or not isinstance(node, cst.Subscript) or len(node.slice) != len(indexed.parts):
        return NoFix.INDEX_FROM_DEVICE
    numbers = [at for at, part in enumerate(indexed.parts) if _is_device_number(indexed, part)]
    held = indexed.value(indexed.node.value)
    others = [part for at, part in enumerate(indexed.parts) if at not in numbers]
    if len(numbers) != 1 or not (held.holds_tensors and held.device.on_accelerator) or not all(map(_is_plain, others)):
        return NoFix.INDEX_FROM_DEVICE
    dimension = _dimension(indexed.parts, numbers[0])
    index = node.slice[numbers[0]].slice
    if dimension is None or not isinstance(index, cst.Index) or edits.has_comment(place.site.tree, node):
        return NoFix.FORM
    row = f"{edits.postfix(place.site.tree, index.value)}.reshape(1)"
    if indexed.use is Use.READ:
        return _read(model, indexed, index.value, row, dimension)
    if len(indexed.parts) > 1 or ":=" in row:
        return NoFix.FORM
    if _share_memory(model, indexed, [indexed.parts[0], *([indexed.given] if indexed.use is not Use.UPDATED else [])]):
        return NoFix.USED_OTHERWISE  # torch refuses to write through an index to what the index or the value views
    return _updated(model, indexed, index.value, row) if indexed.use is Use.UPDATED else _written(model, indexed, row)


def _is_device_number(indexed: Indexed, part: ast.expr) -> bool:
    value = indexed.value(part)
    is_number = value.is_tensor and value.scalar is True and value.device.on_accelerator
    return is_number and value.dtype in (None, *_INDEX_DTYPES)


def _share_memory(model: Model, indexed: Indexed, others: list[ast.expr | None]) -> bool:
    """Whether one of them may be a view of what is written to, or this a view of it."""
    held, *given = (
        {path for part in memory_of(model, indexed.function, each, on_device=True) if (path := dotted(part))}
        for each in (indexed.node.value, *others)
        if each is not None
    )
    return any(not held.isdisjoint(each) for each in given)


def _is_plain(part: ast.expr) -> bool:
    """`:`, `...`, or a written integer."""
    if isinstance(part, ast.Slice):
        return part.lower is None and part.upper is None and part.step is None
    number = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub) else part
    return isinstance(number, ast.Constant) and (number.value is ... or type(number.value) is int)


def _dimension(parts: tuple[ast.expr, ...], at: int) -> int | None:
    """Where the result has the dimension of the index: the integers before it take theirs away."""
    filled = [isinstance(part, ast.Constant) and part.value is ... for part in parts]
    if any(filled[:at]):
        return -1 if at == len(parts) - 1 else None
    return sum(isinstance(part, ast.Slice) for part in parts[:at])


def _read(model: Model, indexed: Indexed, index: cst.BaseExpression, row: str, dimension: int) -> Fix | NoFix:
    node, tree, parent = indexed.site.node, indexed.site.tree, indexed.function.parents[indexed.node]
    assert isinstance(node, cst.Subscript)
    if is_written_through(model, indexed.function, indexed.node) or isinstance(parent, ast.Delete):
        return NoFix.USED_OTHERWISE
    back = "[0]" if dimension == 0 else f".squeeze({dimension})"
    _, end = tree.span(node)
    changed = edits.together(edits.replace(tree, index, row), Edit(end, end, back.encode()))
    is_stored = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Subscript)
    is_reduced = isinstance(parent, ast.Attribute) and parent.attr in FULL_REDUCTIONS
    is_taken = isinstance(parent, _TAKES_VALUES) or is_stored or is_reduced
    return _graded(model, indexed, changed, safe=is_taken)


def _updated(model: Model, indexed: Indexed, index: cst.BaseExpression, row: str) -> Fix | NoFix:
    return _graded(model, indexed, edits.together(edits.replace(indexed.site.tree, index, row)), safe=True)


def _written(model: Model, indexed: Indexed, row: str) -> Fix | NoFix:
    """`x[i.reshape(1)] = v` where `v` has the dtype of `x`, as the device asks for there."""
    node, given = indexed.site.node, indexed.given
    assert isinstance(node, cst.Subscript)
    if given is None:
        return NoFix.FORM
    held, value = indexed.value(indexed.node.value), indexed.value(given)
    if not value.is_tensor or value.dtype is None or value.dtype != held.dtype or not value.device.on_accelerator:
        return NoFix.DTYPE_UNKNOWN
    index = node.slice[0].slice
    assert isinstance(index, cst.Index)
    return _updated(model, indexed, index.value, row)


def _graded(model: Model, indexed: Indexed, changed: tuple[Edit, ...] | None, *, safe: bool) -> Fix | NoFix:
    if changed is None:
        return NoFix.NO_ROOM
    index = next(part for part in indexed.parts if _is_device_number(indexed, part))
    is_whole = indexed.value(index).dtype in _INDEX_DTYPES
    is_kept = indexed.value(indexed.node.value).kind is Kind.TENSOR
    sure = safe and is_whole and is_kept and not surroundings.may_be_caught(model, indexed.site)
    return Fix(_TITLE, Safety.SAFE if sure else Safety.UNSAFE, changed, _ASSUMES)
