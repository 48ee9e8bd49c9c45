"""`accuracy.update(out.cpu(), target.cpu())`: the metric stays on the host, and every batch is copied to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.metrics.host_metrics import mismatches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL308",
    name="metric-device-mismatch",
    category=Category.METRICS,
    summary="a metric stays on the host, and tensors are fetched from the device for it",
    message="`{call}` feeds a `{metric}` of the host with what is fetched from the device for it, {where}",
    severity=Severity.ERROR,
    triggers=("torchmetrics", (".cpu(", ".numpy(", ".tolist(")),
)
def metric_device_mismatch(model: Model) -> Iterator[Finding]:
    """Updates, in every step, of small-state host metrics with device tensors."""
    for each in mismatches(model):
        fields = {
            "call": f"{model.text(each.site.node.func)}(...)",
            "metric": each.function,
            "where": each.hot_path.where,
        }
        yield Finding(each.site, (*each.because, *each.hot_path.because), None, fields)
