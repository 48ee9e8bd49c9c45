"""`MeanMetric()` fed device tensors in a hot loop: its NaN test waits for the device in every update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics import aggregators
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.metrics.aggregators import Update
    from torchperf_lint.model import Model, Site, Value

_HALF = ("GradScaler", "torch.float16", ".half()", '"16-mixed"', "'16-mixed'", "precision=16", '"fp16"', "'fp16'")
_NAN_HANDLING = ("isnan(", "isfinite(", "isinf(", "nan_to_num", "nanmean(")


@rule(
    code="TPL301",
    name="aggregator-nan-check",
    category=Category.METRICS,
    summary="a torchmetrics aggregator tests each update for NaN, and the host waits for the answer",
    message="`{metric}` tests every update for NaN, which waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    costs_at_use=True,
    asks=("torchmetrics",),
    triggers=("torchmetrics", tuple(sorted(torchmetrics_api.AGGREGATORS))),
)
def aggregator_nan_check(model: Model) -> Iterator[Finding]:
    """Aggregators made without a choice about NaN that some hot code updates with device tensors."""
    if model.mentions(*_HALF):
        return  # An overflow gives NaN there as a matter of course, and the test keeps it out of the mean.
    found: dict[int, Finding] = {}
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
                found[site.start] = _finding(model, site, metric, update, escape)
    yield from (found[start] for start in sorted(found))


_REACHES_ALL = (
    ".children()",
    ".modules()",
    ".named_children(",
    ".named_modules(",
    "globals()",
    "locals()",
    "vars(",
    "__dict__",
)
"""Ways to a metric that name it nowhere: a weighted update may hide behind them."""


def _averages(metric: Value) -> bool:
    return aggregators.class_name(metric) in torchmetrics_api.AVERAGES


def _finding(model: Model, site: Site, metric: Value, update: Update, escape: Because | None) -> Finding:
    row = update.site.rows[0]
    shown = type(update.heat.because[0])(row, f"updated here by `{model.text(update.site.node.func)}(...)`")
    because = (*update.because, shown, *update.heat.because, *([] if escape is None else [escape]))
    reached_unseen = _averages(metric) and model.mentions(*_REACHES_ALL)
    fix = None
    if escape is None and not reached_unseen:
        fix = _disable(model, site, metric)
        because = (*because, *model.target_evidence("torchmetrics"))
    return Finding(site, because, fix, {"metric": aggregators.class_name(metric), "where": update.heat.where})


def _disable(model: Model, site: Site, metric: Value) -> Fix | None:
    """Switch the test off where every torchmetrics that may run can do that."""
    known = model.target.torchmetrics_is(torchmetrics_api.DISABLE_SINCE)
    given = aggregators.strategy_argument(site, metric)
    assert isinstance(site.node, cst.Call)
    if given is None:
        changed = edits.add_argument(site.tree, site.node, 'nan_strategy="disable"')
    else:
        assert isinstance(given, cst.BaseExpression)
        edit = edits.replace(site.tree, given, '"disable"')
        changed = None if edit is None else (edit,)
    if known is False or changed is None:
        return None
    certain = known and not model.mentions(*_NAN_HANDLING)
    return Fix("switch the NaN test off", Safety.UNSAFE if certain else Safety.SHOWN, changed)
