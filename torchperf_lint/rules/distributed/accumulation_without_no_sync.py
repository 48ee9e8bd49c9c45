"""DDP and gradient accumulation without `no_sync()`: gradients are reduced before any step uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Loss, Severity
from torchperf_lint.idioms.distributed.reductions import reduces_too_often

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model

_TAKEN_CARE_OF = ("no_sync", "require_backward_grad_sync", "register_comm_hook")


@rule(
    code="TPL503",
    name="accumulation-without-no-sync",
    category=Category.DISTRIBUTED,
    summary="accumulated gradients are reduced across processes in every pass, not once per step",
    message="`{call}` reduces the gradients of all processes {where}, though only some passes take a step",
    severity=Severity.WARNING,
    loses=Loss.BYTES,
    triggers=("DistributedDataParallel", "backward(", "%"),
)
def accumulation_without_no_sync(model: Model) -> Iterator[Finding]:
    """Backward passes of a wrapped model whose optimizer steps only after several of them."""
    if model.code.speaks_of(*_TAKEN_CARE_OF):
        return
    for site in model.method_calls("backward"):
        shown = reduces_too_often(model, site)
        hot_path = None if shown is None else model.hot_path(site)
        if shown is not None and hot_path is not None and hot_path.loop is not None and not model.in_test(site):
            fields = {"call": model.brief(site.node), "where": hot_path.where}
            yield Finding(site, (*shown, *hot_path.because), None, fields)
