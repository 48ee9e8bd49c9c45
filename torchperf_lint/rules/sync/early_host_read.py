"""`n = t.item()`, then device work, then the first use of `n`: the host waits earlier than necessary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.sync.coalesced import coalesced_fixes
from torchperf_lint.idioms.sync.early import early_reads
from torchperf_lint.knowledge.loggers import READER_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL118",
    name="early-host-read",
    category=Category.SYNC,
    summary="a value is read on the host before work is launched that does not need it",
    message="`{read}` waits for the device {where} before work that does not need `{name}` is launched",
    severity=Severity.NOTE,
    fix=Safety.SAFE,
    default=False,
    triggers=((".item", ".cpu", ".tolist", ".numpy", *(f"{ending}(" for ending in READER_ENDINGS)),),
)
def early_host_read(model: Model) -> Iterator[Finding]:
    """Reads that could move to just before their first use, in the same block and after device work."""
    for early in early_reads(model):
        read = early.read
        fix = coalesced_fixes(model).get(read.site.start)
        if fix is None and early.moved is not None:
            fix = Fix("read the value where it is first needed", Safety.SHOWN, early.moved)
        fields = {"read": model.brief(read.site.node), "where": read.hot_path.where, "name": early.name}
        yield Finding(read.site, (*read.because, *read.hot_path.because), fix, fields)
