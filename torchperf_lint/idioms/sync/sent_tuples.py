"""`x[idx]` and `y[idx]` with a tuple of host tensors: sent to the device once, before the first of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix
from torchperf_lint.idioms import evaluating, placing, surroundings
from torchperf_lint.idioms.scripting import is_scripted, may_be_scripted
from torchperf_lint.idioms.transfer import pinned_copies
from torchperf_lint.idioms.transfer.uploads import makes_on_device
from torchperf_lint.idioms.written_helpers import SENT, defined
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "send the places once, from pinned memory, and do not wait"
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


def sent_once(model: Model, indexed: Indexed) -> Fix | NoFix:
    """`idx = tuple(_sent(each, x.device) for each in idx)` where the function takes `idx` for an index alone."""
    function, index = indexed.function, indexed.node.slice
    if not isinstance(index, ast.Name) or not _holds_host_tensors(indexed.value(index)):
        return NoFix.FORM
    torch = model.name_of("torch", indexed.site)
    if torch is None or not model.keeps_builtin("tuple") or makes_on_device(model) or is_scripted(model, function):
        return NoFix.NO_ROOM
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == index.id]
    stores = [each for each in uses if not isinstance(each.ctx, ast.Load)]
    taken = sorted((each for each in uses if isinstance(each.ctx, ast.Load)), key=lambda each: each.lineno)
    if (
        len(stores) != 1
        or model.may_be_rebound(index.id)
        or not all(_is_index(model, function, each) for each in taken)
    ):
        return NoFix.USED_OTHERWISE
    first = taken[0]
    owner, statement = function.parents[first], surroundings.statement_around(function, first)
    made = model.place_of(surroundings.statement_around(function, stores[0]))
    if not isinstance(owner, ast.Subscript) or statement not in made.block[made.position + 1 :]:
        return NoFix.FORM
    site = model.site_at(owner, statement) if isinstance(statement, _SIMPLE) else None
    if site is None or not isinstance(site.node, cst.Subscript):
        return NoFix.NO_ROOM
    again, held = evaluating.written_twice(model, site.node.value), model.value(site.node.value)
    if again is None or not (held.holds_tensors and held.device.on_accelerator):
        return NoFix.DEVICE_NOT_AT_HAND
    there = f"{edits.text_of(site.tree, site.node.value)}.device"
    line = f"{index.id} = tuple({SENT.name}(each, {there}) for each in {index.id})"
    changed = edits.together(
        defined(model, SENT, torch, statement), placing.beside(model, statement, [line], behind=False)
    )
    if changed is None:
        return NoFix.NO_ROOM
    # Truth values would be counted on the device.
    whole = all((each.dtype or "").startswith("int") for _, each in indexed.value(index).items or ())
    same = whole and held.is_tensor and not model.may_be_traced and not may_be_scripted(model, function)
    grade = pinned_copies.safest(model, same=same).at_worst(again)
    return Fix(_TITLE, grade, changed, pinned_copies.ASSUMES)


def _holds_host_tensors(value: Value) -> bool:
    """Whether it is a tuple of tensors that lie on the host."""
    held = [each for _, each in value.items or ()]
    return (
        value.kind is Kind.CONTAINER
        and value.ref == "tuple"
        and bool(held)
        and all(each.is_tensor and each.device is Device.CPU and each.scalar is not True for each in held)
        and not any(each.dtype in ("bool", "uint8") for each in held)
    )


def _is_index(model: Model, function: FunctionInfo, use: ast.Name) -> bool:
    """Whether the use is all that stands in the brackets of a tensor on the device."""
    parent = function.parents[use]
    if not isinstance(parent, ast.Subscript) or parent.slice is not use:
        return False
    held = model.value_in(function, parent.value)
    return held.holds_tensors and held.device.on_accelerator
