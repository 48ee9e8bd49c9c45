"""`x[mask]`: the result's size depends on the mask, and the host waits for it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.sync import indexing
from torchperf_lint.idioms.sync.indexing import Use
from torchperf_lint.idioms.sync.masked_copies import chosen_by_mask
from torchperf_lint.idioms.sync.masked_counts import counted_matches
from torchperf_lint.idioms.sync.shared_masks import read_together
from torchperf_lint.idioms.written_helpers import MATCHES, stands_in
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model, Site

_FILLS = ("masked_fill", "masked_fill_")


@rule(
    code="TPL110",
    name="boolean-mask-read",
    category=Category.SYNC,
    summary="elements are chosen by a mask on the device, whose count the host waits for in every step",
    message="`{chosen}` waits for the device {why}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the sum may be rounded differently in the last digits",
    triggers=(("[", "masked_fill"),),
)
def boolean_mask_read(model: Model) -> Iterator[Finding]:
    """Reads and updates through a boolean mask, masked writes of device tensors, and `masked_fill` with such values."""
    found = [each for each in indexing.hot_masks(model) if not stands_in(model, each[0].site, MATCHES)]
    masks = [
        (indexed, mask, indexing.taken_for_mask(indexed, mask), _over_all(model, indexed)) for indexed, mask in found
    ]
    known = [(indexed, mask) for indexed, mask, taken, fix in masks if isinstance(fix, NoFix) and taken is None]
    together = read_together(model, known)
    for indexed, mask, taken, fix in masks:
        because = (*indexed.value(mask).because, *([taken] if taken else ()), *indexed.hot_path.because)
        often = "twice " if indexed.use is Use.UPDATED else ""
        fields = {
            "chosen": model.brief(indexed.site.node),
            "why": f"{often}to know how many elements the mask chooses",
            "where": indexed.hot_path.where,
        }
        best = NoFix.DTYPE_UNKNOWN if taken else together.get(indexed.site.start, fix)
        yield Finding(indexed.site, because, best, fields)
    for site in model.method_calls(*_FILLS, hot=True):
        hot_path, shows = model.hot_path(site), _value_on_device(model, site.node)
        if hot_path is None or shows is None:
            continue
        fields = {
            "chosen": model.brief(site.node),
            "why": "to read the value that it fills in",
            "where": hot_path.where,
        }
        yield Finding(site, (*shows, *hot_path.because), _where(model, site), fields)


def _value_on_device(model: Model, call: cst.Call) -> tuple[Because, ...] | None:
    """Evidence that a device tensor is filled with another device tensor."""
    filled, value = shape.receiver(call), shape.argument(call, "value", 1)
    if not isinstance(value, cst.BaseExpression) or filled is None or model.on_device(filled) is None:
        return None
    return model.on_device(value) if model.value(value).is_tensor else None


_NEUTRAL = {"MultiplyAssign": "1", "DivideAssign": "1", "AddAssign": "0", "SubtractAssign": "0"}
"""The neutral operand of each update operator."""
_LARGEST_FLOAT = 3e38
_OPERATORS = {"MultiplyAssign": "*", "DivideAssign": "/", "AddAssign": "+", "SubtractAssign": "-"}


def _over_all(model: Model, indexed: Indexed) -> Fix | NoFix:
    """The same operation over all elements, with neutral values where the mask is false."""
    copied = chosen_by_mask(model, indexed)
    if isinstance(copied, Fix) or indexed.use is Use.WRITTEN:
        return copied
    if indexed.use is not Use.READ:
        return _updated(model, indexed)
    counted = counted_matches(model, indexed)
    return _summed(model, indexed) if counted is NoFix.SIZE_IN_THE_DATA else counted


def _summed(model: Model, indexed: Indexed) -> Fix | NoFix:
    """`torch.where(m, x, 0).sum()` for `x[m].sum()`, and that over `m.sum()` for the mean."""
    site, node = indexed.site, indexed.site.node
    attribute = model.parent(node)
    call = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    torch = model.name_of("torch", site)
    if not isinstance(call, cst.Call) or call.func is not attribute or shape.method_name(call) not in ("sum", "mean"):
        return NoFix.SIZE_IN_THE_DATA
    if call.args:
        return NoFix.FORM
    if not indexing.has_its_shape(model, indexed):
        return NoFix.SHAPE_UNKNOWN
    if torch is None:
        return NoFix.NO_ROOM
    mask = node.slice[0].slice.value
    text = edits.text_of(site.tree, mask)
    new = f"{torch}.where({text}, {edits.text_of(site.tree, node.value)}, 0).sum()"
    if shape.method_name(call) == "mean":
        new = f"{new} / {edits.postfix(site.tree, mask)}.sum()"
        if not isinstance(model.parent(call), (cst.Assign, cst.Return, cst.Arg, cst.AnnAssign)):
            new = f"({new})"
    edit = edits.replace(site.tree, call, new)
    return NoFix.NO_ROOM if edit is None else Fix("reduce over all elements, the others as 0", Safety.UNSAFE, (edit,))


def _updated(model: Model, indexed: Indexed) -> Fix | NoFix:
    """`x *= torch.where(m, s, 1)` for `x[m] *= s`."""
    site, node = indexed.site, indexed.site.node
    statement = model.parent(node)
    torch = model.name_of("torch", site)
    neutral = _NEUTRAL.get(type(statement.operator).__name__) if isinstance(statement, cst.AugAssign) else None
    if not isinstance(statement, cst.AugAssign) or neutral is None or not model.certain_number(statement.value):
        return NoFix.SIZE_IN_THE_DATA
    if not indexing.has_its_shape(model, indexed):
        return NoFix.SHAPE_UNKNOWN
    if torch is None:
        return NoFix.NO_ROOM
    mask, number = (edits.text_of(site.tree, each) for each in (node.slice[0].slice.value, statement.value))
    if not _is_exact(model, statement.value):
        return _chosen(site, statement, f"{torch}.where({mask}, ")
    changed = edits.together(
        edits.replace(site.tree, node, edits.text_of(site.tree, node.value)),
        edits.replace(site.tree, statement.value, f"{torch}.where({mask}, {number}, {neutral})"),
    )
    return (
        NoFix.NO_ROOM
        if changed is None
        else Fix("update all elements, the others by nothing", Safety.UNSAFE, changed, "-0.0 may become 0.0")
    )


def _is_exact(model: Model, number: cst.BaseExpression) -> bool:
    """Whether the number is the same in float32, the dtype that `torch.where` gives numbers."""
    constant = model.value(number).constant
    if not isinstance(constant, (int, float)) or abs(constant) > _LARGEST_FLOAT:
        return False
    return bool(struct.unpack("f", struct.pack("f", constant))[0] == constant)


def _chosen(site: Site, statement: cst.AugAssign, where: str) -> Fix | NoFix:
    """`x.copy_(torch.where(m, x * s, x))`, where the number meets the tensor's own dtype."""
    subscript = cst.ensure_type(statement.target, cst.Subscript)
    owner, number = (edits.text_of(site.tree, each) for each in (subscript.value, statement.value))
    if isinstance(statement.value, (cst.BinaryOperation, cst.UnaryOperation, cst.IfExp)) and not statement.value.lpar:
        number = f"({number})"
    text = f"{owner}.copy_({where}{owner} {_OPERATORS[type(statement.operator).__name__]} {number}, {owner}))"
    edit = edits.replace(site.tree, statement, text)
    title = "update all elements, and keep the others"
    return NoFix.NO_ROOM if edit is None else Fix(title, Safety.UNSAFE, (edit,), "no elements share memory")


def _where(model: Model, site: Site) -> Fix | NoFix:
    """`torch.where(m, v, x)` for `x.masked_fill(m, v)`."""
    call = site.node
    torch = model.name_of("torch", site)
    if torch is None:
        return NoFix.NO_ROOM
    if shape.method_name(call) != "masked_fill" or len(call.args) != 2:
        return NoFix.FORM
    if any(each.star or each.keyword for each in call.args):
        return NoFix.FORM
    kept, filled = model.value(call.func.value), model.value(call.args[1].value)
    if kept.dtype is None or kept.dtype != filled.dtype:
        return NoFix.DTYPE_UNKNOWN
    parts = [call.args[0].value, call.args[1].value, call.func.value]
    mask, value, tensor = (edits.text_of(site.tree, part) for part in parts)
    edit = edits.replace(site.tree, call, f"{torch}.where({mask}, {value}, {tensor})")
    one = "the value that is filled in has one element"
    return NoFix.NO_ROOM if edit is None else Fix("choose on the device", Safety.UNSAFE, (edit,), one)
