"""`total += p.grad.norm().item() ** 2`: one wait per parameter, where the total norm needs at most one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Rate, Safety, Severity
from torchperf_lint.idioms.sync import norms
from torchperf_lint.idioms.sync.ahead import read_ahead_or
from torchperf_lint.idioms.sync.reads import Sink, hot_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model

_TOTAL_SINCE = ">=2.6"
"""The releases of torch that have `torch.nn.utils.get_total_norm`."""


@rule(
    code="TPL109",
    name="per-parameter-norm-sync",
    category=Category.SYNC,
    summary="a norm over all parameters is read parameter by parameter in every step",
    message="`{read}` waits for the device once per parameter, {where}",
    severity=Severity.ERROR,
    rate=Rate.SEVERAL,
    fix=Safety.SAFE,
    assumes="some gradient exists, all are of one dtype on one device, and the last digits may differ",
    asks=("torch",),
    triggers=((".item", "float("), ("norm(", "pow(", "** 2", "**2", "square("), ("parameters", ".grad")),
)
def per_parameter_norm_sync(model: Model) -> Iterator[Finding]:
    """Reads, in loops and comprehensions over parameters, of norms that are summed or collected."""
    for read in hot_reads(model):
        if read.role is not Sink.NORM:
            continue
        fix = read_ahead_or(model, read, read.unfixed or NoFix.FORM)
        total = None if read.unfixed else _total_at_once(model, read)
        if total is not None and (isinstance(fix, NoFix) or fix.safety is not Safety.SAFE):
            fix = total
        shows = model.target_evidence("torch") if fix is total else ()
        fields = {"read": model.brief(read.site.node), "where": read.hot_path.step}
        yield Finding(read.site, (*read.because, *read.hot_path.because, *shows), fix, fields)


def _total_at_once(model: Model, read: HostRead) -> Fix | None:
    """The norm of all gradients on the device, and one read."""
    total = norms.total_of(model, read.site)
    torch = model.name_of("torch", read.site)
    if total is None or torch is None:
        return None
    if model.target.torch_is(_TOTAL_SINCE):
        whole = f"{torch}.nn.utils.get_total_norm([{total.normed} {total.walk}])"
    else:
        whole = f"{torch}.stack([{total.norm} {total.walk}]).norm()"
    line = f"return {whole}.item()" if total.name is None else f"{total.name} = {whole}.item()"
    changed = norms.in_place_of(model, read.site, total, line)
    return None if changed is None else Fix("compute the whole norm on the device, read once", Safety.UNSAFE, changed)
