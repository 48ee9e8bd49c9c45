"""Data that differ in every step: packed into pinned memory, and copied to the device without a wait."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating
from torchperf_lint.idioms.scripting import may_be_scripted
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
_PACKS = "torch.tensor"
_SHARING = frozenset({"torch.as_tensor", "torch.asarray", "torch.from_numpy"})
_NEW = "new_tensor"
_PACKED = frozenset({"data", "dtype", "device"})
"""The keywords that `torch.tensor` takes as the other functions do."""
_VIEWS = frozenset("view reshape unsqueeze squeeze flatten".split())
"""Methods that return a view of a tensor in one piece, which is as pinned as the tensor."""
_TURNS = frozenset("t transpose permute contiguous clone repeat".split())
_CASTS = frozenset("float double half bfloat16".split())
"""Methods that give the same on any device, in memory of their own or with another layout.

Not `expand`, whose rows share memory until a move gives each its own.
"""


def without_wait(model: Model, site: Site, call: cst.Call, move: Move | None) -> Fix | NoFix:
    """`torch.tensor(v, pin_memory=...).to(d, non_blocking=True)` for a call that packs data for the device.

    `move` is the call that copies, or None where the packing call takes the device itself.
    """
    if may_be_scripted(model, model.function_of(site)):
        return NoFix.SCRIPTED
    if makes_on_device(model):
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
    if move is None:
        changed = _new_like(model, site, call, torch) if _makes_new(call) else _device_dropped(model, site, call, torch)
    else:
        changed = _not_waited_for(model, site, call, move, torch)
    if isinstance(changed, NoFix):
        return changed
    if changed is None:
        return NoFix.NO_ROOM
    return Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES_NO_SHARING if _may_share(model, call) else _ASSUMES)


def _may_share(model: Model, call: cst.Call) -> bool:
    """Whether the result may share the memory of an array as it stands, which a packed one does not."""
    data = model.value(call.args[0].value)
    return model.value(call.func).ref in _SHARING and data.kind is not Kind.CONTAINER


def _makes_new(call: cst.Call) -> bool:
    return shape.method_name(call) == _NEW


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


def _packer(model: Model, site: Site, call: cst.Call, torch: str, added: str) -> tuple[Edit, ...] | NoFix | None:
    """The edits that make the call one of `torch.tensor`, which alone can pack into pinned memory."""
    ref, tree = model.value(call.func).ref or "", site.tree
    if ref == _PACKS:
        return edits.add_argument(tree, call, added)
    if ref in _SHARING:
        if not _PACKED.issuperset(_keywords(call)):
            return NoFix.FORM
        return edits.together(edits.replace(tree, call.func, f"{torch}.tensor"), edits.add_argument(tree, call, added))
    dtype = FILLABLE.get(ref)
    if dtype is None or len(call.args) != 1 or model.value(call.args[0].value).kind is not Kind.CONTAINER:
        return NoFix.FORM
    typed = edits.add_argument(tree, call, f"dtype={torch}.{dtype}, {added}")
    return edits.together(edits.replace(tree, call.func, f"{torch}.tensor"), typed)


def _keywords(call: cst.Call) -> list[str]:
    """The names of the arguments after the first one; empty for one without."""
    return [argument.keyword.value if argument.keyword else "" for argument in call.args[1:]]


def pinned(torch: str, *, is_cuda: bool = False) -> str:
    """`pin_memory=True`, where there is CUDA."""
    return f"pin_memory={'True' if is_cuda else f'{torch}.cuda.is_available()'}"


def without_waiting(model: Model, torch: str, *, is_cuda: bool = False) -> str:
    """`non_blocking=True`; only on CUDA where the project names others: Apple's may read memory that is free again."""
    everywhere = is_cuda or not model.names_other_accelerators
    return f"non_blocking={'True' if everywhere else f'{torch}.cuda.is_available()'}"


def _is_cuda(model: Model, device: cst.BaseExpression | None) -> bool:
    return device is None or model.device_named(device) is Device.CUDA


def _device_dropped(model: Model, site: Site, call: cst.Call, torch: str) -> tuple[Edit, ...] | NoFix | None:
    """`device=d` becomes `pin_memory=...`, and `.to(d, non_blocking=True)` follows the call."""
    given = [each for each in call.args if each.keyword is not None and each.keyword.value == "device"]
    if len(given) != 1:
        return NoFix.FORM
    device = given[0].value
    if not is_pure(model, device) or "\n" in model.text(device):
        return NoFix.DEVICE_NOT_AT_HAND
    ref = model.value(call.func).ref or ""
    if ref != _PACKS and (ref not in _SHARING or not _PACKED.issuperset(_keywords(call))):
        return NoFix.FORM
    renamed = () if ref == _PACKS else edits.replace(site.tree, call.func, f"{torch}.tensor")
    end = site.tree.span(call)[1]
    is_cuda = _is_cuda(model, device)
    moved = f".to({model.text(device)}, {without_waiting(model, torch, is_cuda=is_cuda)})"
    replaced = edits.replace(site.tree, given[0], pinned(torch, is_cuda=is_cuda))
    return edits.together(renamed, replaced, Edit(end, end, moved.encode()))


def _new_like(model: Model, site: Site, call: cst.Call, torch: str) -> tuple[Edit, ...] | NoFix | None:
    """`torch.tensor(v, dtype=x.dtype, ...).to(x.device, ...)` for `x.new_tensor(v)`."""
    owner = shape.receiver(call)
    if owner is None or not is_pure(model, owner) or evaluating.written_twice(model, owner) is None:
        return NoFix.DEVICE_NOT_AT_HAND
    named = _keywords(call)
    if not {"dtype"}.issuperset(named) or not model.value(owner).is_tensor:
        return NoFix.FORM
    name, tree = edits.postfix(site.tree, owner), site.tree
    dtype = "" if named else f"dtype={name}.dtype, "
    added = edits.add_argument(tree, call, f"{dtype}{pinned(torch)}")
    end = tree.span(call)[1]
    moved = Edit(end, end, f".to({name}.device, {without_waiting(model, torch)})".encode())
    return edits.together(edits.replace(tree, call.func, f"{torch}.tensor"), added, moved)


def _not_waited_for(
    model: Model, site: Site, call: cst.Call, move: Move, torch: str
) -> tuple[Edit, ...] | NoFix | None:
    """`pin_memory=...` in the packing call, `non_blocking=True` in the move, which stands next to what is packed."""
    if not move.plain or shape.argument(call, "device") is not None or shape.method_name(move.call) == "type_as":
        return NoFix.FORM
    casts = move.like or move.dtype is not None
    if casts and not _is_float(model, move.device if move.like else move.dtype):
        return NoFix.FORM  # what integers do not hold is another number on the device
    node, moved_away = move.moved, False
    # Not every accelerator has the dtype before the cast: Apple's have no float64.
    steps = _VIEWS | _TURNS | (frozenset() if model.names_other_accelerators else _CASTS)
    while node is not call and not isinstance(node, cst.Name):
        name = shape.method_name(node) if isinstance(node, cst.Call) else None
        if not isinstance(node, cst.Call) or name not in steps:
            return NoFix.FORM  # what is put together anew is in ordinary memory
        is_function = (model.value(node.func).ref or "").startswith("torch.")
        inner = node.args[0].value if is_function and node.args else shape.receiver(node)
        if inner is None or (is_function and name not in _VIEWS):
            return NoFix.FORM
        node, moved_away = inner, moved_away or name not in _VIEWS
    is_cuda = not move.like and _is_cuda(model, move.device)
    packed = _packer(model, site, call, torch, pinned(torch, is_cuda=is_cuda))
    if isinstance(packed, NoFix) or packed is None:
        return packed
    argument = without_waiting(model, torch, is_cuda=is_cuda)
    if not moved_away:
        added = () if move.non_blocking else edits.add_argument(move.site.tree, move.call, argument)
        return edits.together(packed, added)
    if casts or move.site.tree is not site.tree:
        return NoFix.FORM
    return edits.together(packed, _moved_first(move, node, argument))


def _moved_first(move: Move, node: cst.BaseExpression, argument: str) -> tuple[Edit, ...] | None:
    """`x.to(d, non_blocking=True).float()` for `x.float().to(d)`."""
    tree = move.site.tree
    start, end = tree.outer_span(move.moved)[1], tree.span(move.site.node)[1]
    given = [edits.text_of(tree, each) for each in move.call.args]
    if b"#" in tree.source.utf8[start:end] or any("\n" in each for each in given):
        return None
    given = [each.rstrip().removesuffix(",") for each in given] + ([] if move.non_blocking else [argument])
    place = tree.outer_span(node)[1]
    moved = f".{shape.method_name(move.call)}({', '.join(given)})"
    return Edit(place, place, moved.encode()), Edit(start, end, b"")


def _is_float(model: Model, node: cst.BaseExpression | None) -> bool:
    return node is not None and (model.value(node).dtype or "").startswith(("float", "bfloat"))
