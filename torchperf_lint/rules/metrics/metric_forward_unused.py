"""`metric(preds, target)` with an unused value: `update` does not compute the batch's value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms.metrics.metric_calls import FORWARD, hot_metric_calls, members
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import MetricCall
    from torchperf_lint.model import Model

_LOGS = frozenset({"log", "log_dict", "track", "add_scalar"})
_READS_FORWARD = ("_forward_cache", "register_forward", "_forward_full", "_forward_reduce")


@rule(
    code="TPL304",
    name="metric-forward-unused",
    category=Category.METRICS,
    summary="a torchmetrics metric is called for every batch, and the batch's value is not used",
    message="`{call}` also works out the value of this batch{twice}, which nothing takes, {where}",
    severity=Severity.WARNING,
    loses=Loss.KERNELS,
    fix=Safety.SAFE,
    assumes="nothing else rests on the batch's own value, and the last digits may differ",
    triggers=("torchmetrics",),
)
def metric_forward_unused(model: Model) -> Iterator[Finding]:
    """Calls of metrics on the device, in every step, as expression statements."""
    for each in hot_metric_calls(model):
        if each.name not in FORWARD or not each.metric.device.on_accelerator:
            continue
        if not isinstance(model.parent(each.site.node), cst.Expr) or _is_logged(model, each):
            continue
        names = {_class_name(metric.ref) for metric in (each.metric, *members(each.metric))}
        if names & torchmetrics_api.KEEPS_BATCH_VALUES:
            continue
        twice = bool(names & torchmetrics_api.UPDATES_TWICE)
        fields = {
            "call": f"{model.text(each.call.func)}(...)",
            "twice": ", updating twice for it" if twice else "",
            "where": each.hot_path.where,
        }
        because = (*each.because, *each.hot_path.because)
        yield Finding(each.site, because, _only_update(model, each), fields)


def _class_name(ref: str | None) -> str:
    return (ref or "").rpartition(".")[2]


def _is_logged(model: Model, each: MetricCall) -> bool:
    """Whether the metric is passed to Lightning, which may then read the batch's value from it."""
    if not model.in_lightning_module(each.site) and not model.class_bases(each.site):
        return False
    path = shape.dotted(each.receiver)
    for site in model.method_calls(*sorted(_LOGS)):
        given = [argument.value for argument in site.node.args]
        if not any(path is None or path in _without_values(model, value, path) for value in given):
            continue
        on_step = shape.argument(site.node, "on_step")
        if not (isinstance(on_step, cst.BaseExpression) and model.value(on_step).constant is False):
            return True
    return False


def _without_values(model: Model, node: cst.BaseExpression, path: str) -> str:
    """The text of an argument without `path.compute()`: a value, which Lightning cannot trace to its metric."""
    text = model.text(node)
    for call in shape.calls_in(node):
        owner = shape.receiver(call)
        if shape.method_name(call) == "compute" and owner is not None and shape.dotted(owner) == path:
            text = text.replace(model.text(call), "")
    return text


def _only_update(model: Model, each: MetricCall) -> Fix | None:
    tree, func = each.site.tree, each.call.func
    if each.name == "forward":
        assert isinstance(func, cst.Attribute)
        edit = edits.replace(tree, func.attr, "update")
    elif isinstance(func, (cst.Name, cst.Attribute, cst.Subscript)) and not func.lpar:
        edit = edits.replace(tree, func, f"{model.text(func)}.update")
    else:
        return None
    if edit is None:
        return None
    # After the first update, a collection merges the states of members that are equal, even by chance.
    exact = _class_name(each.metric.ref) in torchmetrics_api.ADDS_EXACTLY
    seen = not model.in_lightning_module(each.site) and not model.code.speaks_of(*_READS_FORWARD)
    grade = Safety.SAFE if exact and seen else Safety.UNSAFE
    return Fix("only update the metric", grade, (edit,))
