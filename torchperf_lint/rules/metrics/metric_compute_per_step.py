"""`metric.compute()` in every step: the value over all batches so far is recomputed for each new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Loss, Severity
from torchperf_lint.idioms.metrics.metric_calls import hot_calls_of_any
from torchperf_lint.idioms.metrics.walked import walked
from torchperf_lint.idioms.sync.reads import Sink, needed_at_once
from torchperf_lint.syntax import shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import MetricCall
    from torchperf_lint.model import Model, Value


@rule(
    code="TPL306",
    name="metric-compute-per-step",
    category=Category.METRICS,
    summary="a torchmetrics metric computes its value over all batches so far in every step",
    message="`{call}` works out the value of all batches so far, {where}",
    severity=Severity.WARNING,
    loses=Loss.KERNELS,
    triggers=("torchmetrics", ".compute("),
)
def metric_compute_per_step(model: Model) -> Iterator[Finding]:
    """Calls of `compute`, in every step, of metrics on the device that keep accumulating."""
    calls = hot_calls_of_any(model)
    for each in calls:
        if each.name != "compute" or not each.metric.device.on_accelerator:
            continue
        if _starts_anew(model, each, calls) or needed_at_once(model, each.site) is Sink.CONDITION:
            continue
        fields = {"call": model.brief(each.site.node), "where": each.hot_path.where}
        yield Finding(each.site, (*each.because, *each.hot_path.because), None, fields)


def _starts_anew(model: Model, each: MetricCall, calls: tuple[MetricCall, ...]) -> bool:
    """Whether the metric is also reset or created in every step, so that its value is the step's."""
    metrics = walked(model, each)
    if metrics:
        return _any_starts_anew(model, metrics, calls)
    path = shape.dotted(each.receiver)
    for other in calls:
        if other.name == "reset" and (shape.dotted(other.receiver) == path or path is None):
            return True
    made = model.creation(each.metric)
    if made is not None:
        return model.hot_path(made) is not None
    return each.metric.created is None and (each.metric.ref is None or not _is_kept(path))


def _any_starts_anew(model: Model, metrics: list[Value], calls: tuple[MetricCall, ...]) -> bool:
    """Whether one of several metrics may be reset in every step, under any name, or is created there."""
    resets = [other.metric.created for other in calls if other.name == "reset"]
    if None in resets or any(metric.created in resets or metric.cls is not None for metric in metrics):
        return True
    made = [model.creation(metric) for metric in metrics]
    return any(site is None or model.hot_path(site) is not None for site in made)


def _is_kept(path: str | None) -> bool:
    """`self.accuracy`: an attribute outlives the step, wherever the metric was created."""
    return path is not None and "." in path
