"""`BinaryAccuracy()` in a hot loop: it checks every batch's labels, and the host waits for the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics.metric_calls import FORWARD, made
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import Made
    from torchperf_lint.model import Model, Site

_VALIDATES_VALUES = torchmetrics_api.SHARED_STATES[0] | torchmetrics_api.SHARED_STATES[1]


@rule(
    code="TPL309",
    name="metric-input-validation",
    category=Category.METRICS,
    summary="a torchmetrics metric checks the values of each batch, and the host waits for the answer",
    message="`{metric}` checks the {what} of each batch, which waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="all labels and predictions are valid, and so are the metric's own arguments",
    costs_at_use=True,
    triggers=("torchmetrics",),
)
def metric_input_validation(model: Model) -> Iterator[Finding]:
    """Metrics without an explicit `validate_args` whose check of each hot update reads device values."""
    for each in made(model):
        task = _task(model, each)
        if task is None or shape.argument(each.site.node, "validate_args") is not None:
            continue
        for name, site in model.object_calls(each.metric)[0]:
            hot_path = model.hot_path(site) if name in ("update", *FORWARD) else None
            if hot_path is None or not _reads_values(model, task, site):
                continue
            updated = Because(site.rows[0], f"updated here by `{model.text(site.node.func)}(...)`")
            what = "predictions and labels" if task == "multiclass" else "labels"
            fields = {"metric": each.class_name, "what": what, "where": hot_path.where}
            yield Finding(each.site, (updated, *hot_path.because), _do_not_check(each), fields)
            break


def _task(model: Model, each: Made) -> str | None:
    """`binary`, `multiclass`, `multilabel`, for a metric whose check may read values; None for others."""
    name = each.class_name
    for task in torchmetrics_api.TASKS:
        if name.removeprefix(task) in _VALIDATES_VALUES and name.startswith(task):
            return task.lower()
    given = shape.argument(each.site.node, "task", 0)
    if name not in _VALIDATES_VALUES or not isinstance(given, cst.BaseExpression):
        return None
    constant = model.value(given).constant
    return constant if isinstance(constant, str) else None


def _reads_values(model: Model, task: str, site: Site) -> bool:
    """Whether the check reads device data: multiclass scores are distinguished from labels by dtype alone."""
    call = site.node
    assert isinstance(call, cst.Call)
    preds = shape.argument(call, "preds", 0)
    if not isinstance(preds, cst.BaseExpression):
        return False
    if not any(model.on_device(argument.value) is not None for argument in call.args):
        return False
    whole = (model.value(preds).dtype or "").startswith(("int", "uint"))
    return whole or task in ("binary", "multilabel")


def _do_not_check(each: Made) -> Fix | None:
    """Disable the check."""
    added = edits.add_argument(each.site.tree, each.site.node, "validate_args=False")
    return None if added is None else Fix("do not check the values of each batch", Safety.UNSAFE, added)
