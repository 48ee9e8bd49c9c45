"""`for p in model.parameters(): dist.all_reduce(p.grad)`: one collective per parameter, after backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Loss, Rate, Severity
from torchperf_lint.idioms.distributed.collectives import parameter_walk
from torchperf_lint.syntax import shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL506",
    name="per-parameter-all-reduce",
    category=Category.DISTRIBUTED,
    summary="gradients are reduced across processes one parameter after the other",
    message="`{call}` is a collective of its own for each parameter, after the backward pass, {where}",
    severity=Severity.WARNING,
    loses=Loss.KERNELS,
    rate=Rate.SEVERAL,
    triggers=("all_reduce", "grad"),
)
def per_parameter_all_reduce(model: Model) -> Iterator[Finding]:
    """All-reduces of gradients in a hot loop over parameters."""
    for site in model.calls("torch.distributed.all_reduce", hot=True, near_device=False):
        walk, hot_path = parameter_walk(model, site), model.hot_path(site)
        if (
            walk is None
            or hot_path is None
            or model.in_test(site)
            or shape.argument(site.node, "async_op", 3) is not None
        ):
            continue
        fields = {"call": model.brief(site.node), "where": hot_path.step}
        yield Finding(site, (walk, *hot_path.because), None, fields)
