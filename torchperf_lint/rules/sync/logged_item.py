"""`self.log("loss", loss.item())` in a Lightning hook: a read that Lightning would avoid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.knowledge.loggers import READER_ENDINGS
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model


@rule(
    code="TPL103",
    name="logged-item",
    category=Category.SYNC,
    summary="a logging call gets a host number where it takes the tensor",
    message="`{read}` waits for the device {where}; `{logger}` takes the tensor itself",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="whatever gets the value takes a tensor of the device in the place of a number",
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS)), (".log(", ".log_dict(", "Engine")),
)
def logged_item(model: Model) -> Iterator[Finding]:
    """Reads that are only logged by a framework that keeps tensors on the device."""
    for read in hot_reads(model):
        if read.role is Sink.FRAMEWORK_LOG:
            fields = {"read": model.brief(read.site.node), "where": read.hot_path.where, "logger": read.sink}
            fix = read.unfixed or _keep_tensor(model, read)
            yield Finding(read.site, (*read.because, *read.hot_path.because), fix, fields)


def _keep_tensor(model: Model, read: HostRead) -> Fix | None:
    """Pass the tensor: Lightning detaches it and keeps its mean on the device; for others the fix detaches it."""
    if isinstance(read.parent, cst.Return):
        kept = edits.postfix(read.site.tree, read.tensor) + ".detach()"
        edit = edits.replace(read.site.tree, read.site.node, kept)
        return None if edit is None else Fix("return the detached tensor", Safety.UNSAFE, (edit,))
    edit = edits.replace(read.site.tree, read.site.node, model.text(read.tensor))
    safety = Safety.SAFE if _is_logged_as_it_is(model, read) else Safety.UNSAFE
    return None if edit is None else Fix("log the tensor itself", safety, (edit,))


def _is_logged_as_it_is(model: Model, read: HostRead) -> bool:
    """Whether Lightning converts the tensor to the same float32 as the number, without a warning."""
    holder = model.parent(read.site.node)
    whole = isinstance(holder, (cst.Arg, cst.DictElement, cst.DictComp))
    dtype = model.value(read.tensor).dtype or ""
    # A loss has the module's precision: where a file mentions double precision, Lightning may keep float64.
    single = dtype != "float64" and not model.code.speaks_of("float64", "double", "64-true")
    return whole and single and dtype.startswith(("float", "bfloat")) and read.reader != "int"
