"""`losses.update(loss.item(), n)`: an average meter that costs one wait per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics import meters
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.knowledge.conventions import READING_METERS
from torchperf_lint.knowledge.loggers import READER_ENDINGS
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model


@rule(
    code="TPL104",
    name="average-meter-item",
    category=Category.SYNC,
    summary="an average meter is fed a host number in every step",
    message="`{read}` waits for the device {where} to feed `{meter}`",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="whatever reads the meter takes a tensor, and the device has float64",
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS)), (".update(", ".add(", ".step(", "eter")),
)
def average_meter_item(model: Model) -> Iterator[Finding]:
    """Reads that only go into a meter, which could sum tensors as well."""
    for read in hot_reads(model):
        if read.role is Sink.METER:
            fields = {"read": model.brief(read.site.node), "where": read.hot_path.where, "meter": read.sink}
            fix = read.unfixed or _feed_tensor(model, read)
            yield Finding(read.site, (*read.because, *read.hot_path.because), fix, fields)


def _feed_tensor(model: Model, read: HostRead) -> Fix | None:
    """Pass the detached tensor in float64, the precision in which Python would have averaged."""
    call = read.parent
    owner = shape.receiver(call) if isinstance(call, cst.Call) else None
    if owner is None or not isinstance(call, cst.Call):
        return None
    safety = _safety(model, owner, call, read)
    if safety is None or read.reader == "int":
        return None
    # A tensor of one element that has dimensions cannot be formatted as a number.
    plain = "" if model.value(read.tensor).scalar else ".reshape(())"
    new = f"{edits.postfix(read.site.tree, read.tensor)}.detach().double(){plain}"
    edit = edits.replace(read.site.tree, read.site.node, new)
    return None if edit is None else Fix("feed the meter the detached tensor", safety, (edit,))


def _safety(model: Model, meter: cst.BaseExpression, call: cst.Call, read: HostRead) -> Safety | None:
    """The grade of passing tensors to the meter: None if it reads them itself; less than SAFE in any case."""
    value = model.value(meter)
    if value.cls is not None:
        fed = _parameter(model, call, read)
        if fed is None or not meters.only_adds_up(model, value, shape.method_name(call) or "", fed):
            return None
        return Safety.SHOWN if meters.readers_take_numbers_alone(model) else Safety.UNSAFE
    named = ((value.ref or "").rpartition(".")[2], model.text(meter).rpartition(".")[2])
    reads = isinstance(meter, cst.Subscript) or any(name in READING_METERS for name in named)
    return None if reads else Safety.SHOWN


def _parameter(model: Model, call: cst.Call, read: HostRead) -> int | str | None:
    """The parameter of the meter's method that receives the read, by name or position; None after a star."""
    argument = read.site.node
    while (parent := model.parent(argument)) is not call and parent is not None:
        argument = parent
    for place, given in enumerate(call.args):
        if given.star:
            return None
        if given is argument:
            return place if given.keyword is None else given.keyword.value
    return None
