"""`precision.update(out, y)` beside `recall.update(out, y)`: each computes the same counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Loss, Severity
from torchperf_lint.idioms.metrics.shared_states import shared_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL305",
    name="uncollected-metrics",
    category=Category.METRICS,
    summary="metrics that keep the same state are updated one by one",
    message="{metrics} keep the same state, and each works it out for itself {where}",
    severity=Severity.WARNING,
    loses=Loss.KERNELS,
    triggers=("torchmetrics",),
)
def uncollected_metrics(model: Model) -> Iterator[Finding]:
    """Metrics with the same arguments and the same updates in every step, outside a collection."""
    for shared in shared_states(model):
        names = [f"`{name}`" for name in shared.names]
        because = tuple(Because(each.site.rows[0], f"`{each.class_name}` is made here") for each in shared.made)
        fields = {"metrics": f"{', '.join(names[:-1])} and {names[-1]}", "where": shared.hot_path.where}
        yield Finding(shared.site, (*because, *shared.hot_path.because), None, fields)
