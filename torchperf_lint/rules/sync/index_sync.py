"""`x[:n]` with n on the device, `x[[0, 2]]`, `x[i] = 0.0`: indices, sizes and numbers that the host waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.sync.indices import without_copy
from torchperf_lint.idioms.sync.number_indices import looked_up
from torchperf_lint.idioms.sync.places import hot_places, is_one_element, is_row_of_places, is_through_host_mask
from torchperf_lint.idioms.sync.read_once import read_once
from torchperf_lint.idioms.sync.sent_tuples import sent_once
from torchperf_lint.idioms.sync.sized_once import sized_once
from torchperf_lint.idioms.sync.walked_bounds import read_before_walk
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model

_WRITES_ON_DEVICE_SINCE = ">=2.14"
"""Releases of torch that write a Python number to an element without first copying it to the device."""

_LARGEST_HALF = 65504
"""The largest number of torch.float16."""

_WAITS = {
    "read": "reads `{part}` on the host and waits for the device",
    "copy": "copies the indices to the device and waits",
    "number": "copies `{part}` to the device and waits",
}


@rule(
    code="TPL112",
    name="index-sync",
    category=Category.SYNC,
    summary="an index, a size or a number to be written crosses between host and device in every step",
    message="`{place}` {waits}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="no other stream reads the copy too early, what is moved is a tensor, no attribute on the way is a "
    "property, and no traced graph has to serve another device",
    asks=("torch",),
    triggers=(("[", "range(", "zeros(", "ones(", "empty(", "full(", "view(", "expand(", "repeat(", "ctc", "CTC"),),
)
def index_sync(model: Model) -> Iterator[Finding]:
    """Device-side indices and sizes, host-side indices into device tensors, and numbers written to elements."""
    for place in hot_places(model):
        if place.by == "number" and model.target.torch_is(_WRITES_ON_DEVICE_SINCE):
            continue
        fields = {
            "place": model.brief(place.site.node),
            "waits": _WAITS[place.by].format(part=place.part),
            "where": place.hot_path.where,
        }
        fix = _filled(model, place) if place.by == "number" else NoFix.INDEX_FROM_DEVICE
        by_mask = place.by == "number" and place.indexed is not None and is_through_host_mask(model, place.indexed)
        if place.by == "copy" or by_mask:
            fix = without_copy(model, place)
            if isinstance(fix, NoFix) and place.indexed is not None:
                sent = sent_once(model, place.indexed)
                fix = fix if isinstance(sent, NoFix) else sent
        elif place.by == "read":
            fix = sized_once(model, place.site, place.part) or read_before_walk(model, place)
            for other in (read_once, looked_up):
                fix = other(model, place) if isinstance(fix, NoFix) else fix
        yield Finding(place.site, (*place.because, *place.hot_path.because), fix, fields)


def _filled(model: Model, place: Costly) -> Fix | NoFix:
    """`x[i].fill_(v)` for `x[i] = v`, `x.index_fill_(0, rows, v)` for `x[rows] = v`."""
    site, indexed = place.site, place.indexed
    target = model.parent(site.node)
    statement = None if target is None else model.parent(target)
    if indexed is None or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return NoFix.FORM
    number = edits.text_of(site.tree, statement.value)
    # An assignment evaluates its number first, a call its index.
    element = edits.text_of(site.tree, site.node)
    is_certain = model.certain_number(statement.value)
    if not is_certain and (is_row_of_places(indexed) or not isinstance(statement.value, cst.BinaryOperation)):
        return NoFix.NOT_A_NUMBER
    if ":=" in element or len(indexed.parts) != 1:
        return NoFix.FORM
    new = f"{element}.fill_({number})"
    if is_row_of_places(indexed):
        if not _fits(model, site.node.value, statement.value):
            return NoFix.DTYPE_UNKNOWN
        owner = edits.postfix(site.tree, site.node.value)
        new = f"{owner}.index_fill_(0, {edits.text_of(site.tree, site.node.slice[0].slice.value)}, {number})"
    elif not is_one_element(indexed):
        return NoFix.SHAPE_UNKNOWN
    edit = edits.replace(site.tree, statement, new)
    if edit is None:
        return NoFix.NO_ROOM
    grade = Safety.SAFE if is_certain else Safety.UNSAFE
    return Fix("write the number on the device", grade, (edit,), "" if is_certain else "what is written is a number")


def _fits(model: Model, owner: cst.BaseExpression, number: cst.BaseExpression) -> bool:
    """Whether the number fits the tensor's dtype: if it exceeds a short float, `x[rows] = v` writes an infinity."""
    dtype, constant = model.value(owner).dtype, model.value(number).constant
    if dtype is not None and dtype not in ("float16", "bfloat16"):
        return True
    if isinstance(number, cst.UnaryOperation):
        constant = model.value(number.expression).constant
    return isinstance(constant, (int, float)) and abs(constant) <= _LARGEST_HALF
