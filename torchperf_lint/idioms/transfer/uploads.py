"""Data that differ in every step: packed into pinned memory, and copied to the device without a wait."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms.transfer.construction import FILLABLE, is_pure
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site, Value

_TITLE = "pack the data into pinned memory, and copy without waiting"
_ASSUMES = "the data are on the host, and nothing compiles or exports the code or sets a default device"
_ASSUMES_NO_SHARING = f"{_ASSUMES}; on the CPU, nothing writes to an array that the tensor would share"
_SHARING = "torch.as_tensor"
_PACKERS = frozenset({"torch.tensor", _SHARING})
_VIEWS = frozenset("view reshape unsqueeze squeeze flatten".split())
"""Methods that return a view of a tensor in one piece, which is as pinned as the tensor."""


def without_wait(model: Model, site: Site, call: cst.Call, move: Move | None) -> Fix | NoFix:
    """`torch.tensor(v, pin_memory=...).to(d, non_blocking=True)` for a call that packs data for the device.

    `move` is the call that copies, or None where the packing call takes the device itself.
    """
    if model.may_be_scripted:
        return NoFix.SCRIPTED
    # A copy to Apple's devices may read the packed memory after it is freed.
    if model.names_other_accelerators or makes_on_device(model):
        return NoFix.NOT_PINNED
    if not call.args or call.args[0].star or (call.args[0].keyword and call.args[0].keyword.value != "data"):
        return NoFix.FORM
    if shape.argument(call, "pin_memory") is not None:
        return NoFix.FORM
    if _holds_device_tensors(model.value(call.args[0].value)):
        return NoFix.SEVERAL_MAKERS
    torch = model.name_of("torch", site)
    if torch is None or not site.tree.lossless:
        return NoFix.NO_ROOM
    packed = _packer(model, site, call, torch)
    if isinstance(packed, NoFix):
        return packed
    if move is None:
        copied = _device_dropped(model, site, call, torch)
    else:
        copied = _not_waited_for(model, site, call, move, torch)
    if isinstance(copied, NoFix):
        return copied
    changed = edits.together(packed, copied)
    if changed is None:
        return NoFix.NO_ROOM
    return Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES_NO_SHARING if _may_share(model, call) else _ASSUMES)


def _may_share(model: Model, call: cst.Call) -> bool:
    """Whether the result may share the memory of an array as it stands, which a packed one does not."""
    data = model.value(call.args[0].value)
    return model.value(call.func).ref == _SHARING and data.kind is not Kind.CONTAINER


def makes_on_device(model: Model) -> bool:
    """Whether the file sets a default device, or enters one: tensors that are made there cannot be pinned."""
    if model.code.speaks_of("set_default_d", "set_default_tensor_type"):
        return True
    entered = (each for each in model.statements if isinstance(each, (ast.With, ast.AsyncWith)))
    opened = (item.context_expr for each in entered for item in each.items)
    return any(isinstance(each, ast.Call) and last_name(each.func) == "device" for each in opened)


def made_before(model: Model, move: Move, maker: ast.Call) -> Fix | NoFix:
    """The same for a tensor that is packed within what is moved, or in a line before that only the move reads."""
    call = next((each for each in shape.calls_in(move.moved) if model.ast_of(each) is maker), None)
    if call is not None:
        return without_wait(model, move.site, call, move)
    node = move.moved
    while isinstance(node, cst.Call) and shape.method_name(node) in _VIEWS:
        node = shape.receiver(node) or node.func
    function = model.function_of(move.site)
    if not isinstance(node, cst.Name) or not model.bound_once(function, node.value):
        return NoFix.USED_OTHERWISE
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == node.value]
    if len(uses) != 2 or model.only_binding(function, node.value) is not maker:
        return NoFix.USED_OTHERWISE
    assigned = (each for each in model.statements if isinstance(each, ast.Assign))
    statement = next((each for each in assigned if each.value is maker), None)
    site = None if statement is None else model.site_at(maker, statement)
    if site is None or not isinstance(site.node, cst.Call):
        return NoFix.NO_ROOM
    return without_wait(model, site, site.node, move)


def _holds_device_tensors(value: Value) -> bool:
    """Whether a list holds tensors of the device: each of them is read, however the list is packed."""
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    return value.holds_tensors


def _packer(model: Model, site: Site, call: cst.Call, torch: str) -> tuple[Edit, ...] | NoFix | None:
    """The edits that make the call one of `torch.tensor`, which alone can pack into pinned memory."""
    ref, tree = model.value(call.func).ref or "", site.tree
    if ref == "torch.tensor":
        return ()
    if ref in _PACKERS:
        named = [argument.keyword for argument in call.args[1:]]
        return NoFix.FORM if None in named else edits.together(edits.replace(tree, call.func, f"{torch}.tensor"))
    dtype = FILLABLE.get(ref)
    if dtype is None or len(call.args) != 1 or model.value(call.args[0].value).kind is not Kind.CONTAINER:
        return NoFix.FORM
    added = edits.add_argument(tree, call, f"dtype={torch}.{dtype}")
    return edits.together(edits.replace(tree, call.func, f"{torch}.tensor"), added)


def _pinned(model: Model, device: cst.BaseExpression | None, torch: str) -> str:
    certain = device is None or model.device_named(device) is Device.CUDA
    return f"pin_memory={'True' if certain else f'{torch}.cuda.is_available()'}"


def _device_dropped(model: Model, site: Site, call: cst.Call, torch: str) -> tuple[Edit, ...] | NoFix | None:
    """`device=d` becomes `pin_memory=...`, and `.to(d, non_blocking=True)` follows the call."""
    given = [each for each in call.args if each.keyword is not None and each.keyword.value == "device"]
    if len(given) != 1:
        return NoFix.FORM
    device = given[0].value
    if not is_pure(model, device) or "\n" in model.text(device):
        return NoFix.DEVICE_NOT_AT_HAND
    end = site.tree.span(call)[1]
    moved = f".to({model.text(device)}, non_blocking=True)"
    replaced = edits.replace(site.tree, given[0], _pinned(model, device, torch))
    return edits.together(replaced, Edit(end, end, moved.encode()))


def _not_waited_for(
    model: Model, site: Site, call: cst.Call, move: Move, torch: str
) -> tuple[Edit, ...] | NoFix | None:
    """`pin_memory=...` in the packing call, `non_blocking=True` in the move."""
    if move.like or move.dtype is not None or not move.plain or shape.argument(call, "device") is not None:
        return NoFix.FORM
    node = move.moved
    while isinstance(node, cst.Call) and shape.method_name(node) in _VIEWS and node is not call:
        node = shape.receiver(node) or call
    if node is not call and not isinstance(node, cst.Name):
        return NoFix.FORM  # what is cast or put together anew is in ordinary memory
    added = edits.add_argument(site.tree, call, _pinned(model, move.device, torch))
    if move.non_blocking:
        return added
    return edits.together(added, edits.add_argument(move.site.tree, move.call, "non_blocking=True"))
