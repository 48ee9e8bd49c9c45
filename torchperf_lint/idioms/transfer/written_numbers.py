"""`x[mask] = 0.0` for `x[mask] = torch.tensor(0.0, device=d)`: a write takes the number, and no tensor of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms.scripting import is_perhaps_scripted
from torchperf_lint.idioms.transfer.construction import fits_every_dtype, is_pure
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.filling import Packing
    from torchperf_lint.model import Model


def written_as_number(model: Model, packing: Packing) -> Fix | None:
    """The fix where a region, the places of a mask, or a whole tensor gets one number that every dtype holds.

    An element, and places that integers name, would get a number by a copy that waits.
    """
    call, site = packing.call, packing.site
    is_bare = packing.move is None or packing.move.moved is call
    if not is_bare or len(call.args) < 1 or call.args[0].keyword is not None or call.args[0].star:
        return None
    if is_perhaps_scripted(model, site) or not _fits(model, packing) or not _is_written(model, packing):
        return None
    device = shape.argument(call, "device") if packing.move is None else packing.move.device
    if isinstance(device, cst.BaseExpression) and not is_pure(model, device):
        return None
    edit = edits.replace(site.tree, site.node, model.text(packing.data))
    return None if edit is None else Fix("write the number itself", Safety.SAFE, (edit,))


def _fits(model: Model, packing: Packing) -> bool:
    """Whether the number is a literal that passes through the dtype of its tensor, and every other one, as it is."""
    if any(each.keyword is None or each.keyword.value not in ("dtype", "device") for each in packing.call.args[1:]):
        return False
    if shape.is_literal(packing.data, "True") or shape.is_literal(packing.data, "False"):
        return True
    if not fits_every_dtype(model, packing.data):
        return False
    has_dtype = shape.argument(packing.call, "dtype") is not None
    is_cast = packing.move is not None and (packing.move.like or packing.move.dtype is not None)
    return model.value(packing.data).constant in (0, 1) or not (has_dtype or is_cast)


def _is_written(model: Model, packing: Packing) -> bool:
    """`x[mask] = ...`, `x[:, 0] = ...`, `x.fill_(...)`."""
    above = model.parent(packing.site.node)
    if isinstance(above, cst.Assign) and len(above.targets) == 1:
        target = above.targets[0].target
        return isinstance(target, cst.Subscript) and _is_there(model, target.value) and _is_many(model, target)
    call = model.parent(above) if isinstance(above, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or above is not call.args[0] or call.args[0].star:
        return False
    owner = shape.receiver(call)
    return shape.method_name(call) == "fill_" and owner is not None and _is_there(model, owner)


def _is_there(model: Model, node: cst.BaseExpression) -> bool:
    held = model.value(node)
    return held.is_tensor and not held.mixed and held.device.on_accelerator


def _is_many(model: Model, target: cst.Subscript) -> bool:
    """Whether a mask, or an index with a slice, chooses what is written to."""
    parts = [each.slice for each in target.slice]
    if len(parts) == 1 and isinstance(parts[0], cst.Index):
        mask = model.value(parts[0].value)
        return mask.is_tensor and mask.dtype == "bool" and mask.device.on_accelerator
    chosen = [model.value(each.value) for each in parts if isinstance(each, cst.Index)]
    is_plain = all(each.kind is Kind.NUMBER and each.dtype == "int" for each in chosen)
    return is_plain and len(chosen) < len(parts)
