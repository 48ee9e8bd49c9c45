"""`f1_score(target.cpu(), out.argmax(1).cpu())` for every batch: a host-side score of device data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.metrics.host_metrics import host_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL310",
    name="host-metric-per-batch",
    category=Category.METRICS,
    summary="a score is computed on the host for every batch",
    message="`{call}` works out a score on the host, for which {count} fetched from the device, {where}",
    severity=Severity.ERROR,
    triggers=(("sklearn", "skimage"), (".cpu(", ".numpy(", ".tolist(")),
)
def host_metric_per_batch(model: Model) -> Iterator[Finding]:
    """Calls of scikit-learn and scikit-image scores, in every step, on device tensors."""
    for metric in host_metrics(model):
        count = len(metric.fetches)
        fields = {
            "call": f"{model.text(metric.site.node.func)}(...)",
            "count": f"{count} tensors are" if count > 1 else "a tensor is",
            "where": metric.hot_path.where,
        }
        yield Finding(metric.site, (*metric.because, *metric.hot_path.because), None, fields)
