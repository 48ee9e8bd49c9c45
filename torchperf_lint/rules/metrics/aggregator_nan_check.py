"""`MeanMetric()` with device tensors in a hot loop: its NaN test waits for the device in every update."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics import aggregators, metric_calls, unchecked
from torchperf_lint.idioms.metrics.unchecked import Metric
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.metrics.aggregators import Update
    from torchperf_lint.model import Model, Site, Value

_NAN_HANDLING = ("isnan", "isfinite", "isinf", "nan_to_num", "nanmean")


@rule(
    code="TPL301",
    name="aggregator-nan-check",
    category=Category.METRICS,
    summary="a torchmetrics aggregator tests each update for NaN, and the host waits for the answer",
    message="`{metric}` tests every update for NaN, which waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="no value is NaN, and no other file gives this metric weights or asks for its class",
    costs_at_use=True,
    asks=("torchmetrics",),
    triggers=("torchmetrics", tuple(sorted(torchmetrics_api.AGGREGATORS))),
)
def aggregator_nan_check(model: Model) -> Iterator[Finding]:
    """Aggregators without an explicit NaN strategy that hot code updates with device tensors."""
    if _trains_in_half(model):
        return  # With float16, overflows give NaN regularly, and the test keeps them out of the mean.
    found: dict[int, _Found] = {}
    for update in aggregators.hot_updates(model):
        fed = model.on_device(update.value)
        if fed is None and not update.reads:
            continue
        for metric in update.metrics:
            site = model.creation(metric)
            if site is None or site.start in found or aggregators.nan_strategy(model, metric) != "warn":
                continue
            weighted, escape = aggregators.weighted_or_unseen(model, metric) if _averages(metric) else (False, None)
            if not weighted:
                found[site.start] = _Found(Metric(site, metric), update, escape)
    metrics = [each.metric for each in found.values()]
    yield from (_finding(model, found[start], metrics) for start in sorted(found))


class _Found(NamedTuple):
    """A metric, its first costly update, and where unseen updates may come from."""

    metric: Metric
    update: Update
    escape: Because | None


def _trains_in_half(model: Model) -> bool:
    """Whether the file scales gradients or uses float16."""
    chosen = model.code.states("16-mixed", "fp16") or model.code.passes("precision", 16) or model.code.calls(".half")
    return chosen or model.code.speaks_of("GradScaler") or model.code.names("torch.float16")


def _reaches_all(model: Model) -> bool:
    """Whether the file iterates over everything in an object or a scope."""
    walks = model.code.calls(".children", ".modules", ".named_children", ".named_modules")
    return walks or model.code.calls_plainly("globals", "locals", "vars") or model.code.names("__dict__")


"""Ways to reach a metric without its name, by which a weighted update may go unseen."""


def _averages(metric: Value) -> bool:
    return metric_calls.class_name(metric) in torchmetrics_api.AVERAGES


def _finding(model: Model, found: _Found, metrics: list[Metric]) -> Finding:
    (site, metric), update, escape = found
    row = update.site.rows[0]
    shown = type(update.hot_path.because[0])(row, f"updated here by `{model.text(update.site.node.func)}(...)`")
    because = (*update.because, shown, *update.hot_path.because, *([] if escape is None else [escape]))
    may_be_weighted = escape is not None or (_averages(metric) and _reaches_all(model))
    fix = None
    if model.target.torchmetrics_is(torchmetrics_api.DISABLE_SINCE) is False:
        fix = _subclass(model, found.metric, metrics)
    elif not may_be_weighted:
        fix = _disable(model, site, metric)
    if fix is not None or not may_be_weighted:
        because = (*because, *model.target_evidence("torchmetrics"))
    return Finding(site, because, fix, {"metric": aggregators.shown_name(metric), "where": update.hot_path.where})


def _disable(model: Model, site: Site, metric: Value) -> Fix | None:
    """Disable the test; every torchmetrics release that may run supports that, as far as is known."""
    given = aggregators.strategy_argument(site, metric)
    assert isinstance(site.node, cst.Call)
    if given is None:
        changed = edits.add_argument(site.tree, site.node, 'nan_strategy="disable"')
    else:
        assert isinstance(given, cst.BaseExpression)
        edit = edits.replace(site.tree, given, '"disable"')
        changed = None if edit is None else (edit,)
    if changed is None:
        return None
    known = model.target.torchmetrics_is(torchmetrics_api.DISABLE_SINCE)
    return Fix("switch the NaN test off", _grade(model) if known else Safety.SHOWN, changed)


def _subclass(model: Model, metric: Metric, metrics: list[Metric]) -> Fix | None:
    """Skip the test in a subclass in the file: some torchmetrics release that may run cannot disable it."""
    changed = unchecked.subclassed(model, metric, metrics)
    return None if changed is None else Fix("leave the NaN test out in a subclass", _grade(model), changed)


def _grade(model: Model) -> Safety:
    return Safety.SHOWN if model.code.calls(*_NAN_HANDLING) else Safety.UNSAFE
