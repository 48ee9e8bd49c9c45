"""`metric.update(loss.item())` with the metric on the device: the number makes a round trip in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics import aggregators, metric_calls
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.metrics.aggregators import Update
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model

_OTHER_DEVICES = ("cuda:1", "cuda:2", "cuda:3")


@rule(
    code="TPL302",
    name="scalar-metric-update",
    category=Category.METRICS,
    summary="a metric on the device is fed a Python number",
    message="`{argument}` {says}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the tensor's dtype is exact enough, no NaN is replaced, and the metric is on the tensor's device",
    asks=("torchmetrics",),
    triggers=("torchmetrics", tuple(sorted(torchmetrics_api.AGGREGATORS))),
)
def scalar_metric_update(model: Model) -> Iterator[Finding]:
    """Hot updates of device-resident aggregators with values read from the device, or with host numbers."""
    for update in aggregators.hot_updates(model):
        sink = model.text(update.site.node.func)
        for read in update.reads:
            fields = {
                "argument": model.text(read.site.node),
                "says": f"waits for the device, and `{sink}` copies the number back to it",
                "where": update.hot_path.where,
            }
            because = (*update.because, *read.because, *update.hot_path.because)
            yield Finding(read.site, because, _keep_tensor(model, update, read), fields)
        # A list of values would mix numbers and tensors on two devices, so there is no better form.
        if not update.reads and aggregators.is_number(model, update.value) and not _lists(update):
            fields = {
                "argument": model.text(update.value),
                "says": f"is a Python number that `{sink}` copies to the device and waits for",
                "where": update.hot_path.where,
            }
            because = (*update.because, *update.hot_path.because)
            if _leaves_weight_out(update):
                because = (*because, *model.target_evidence("torchmetrics"))
            yield Finding(model.site(update.value), because, _wrap_number(model, update), fields)


def _lists(update: Update) -> bool:
    return any(metric_calls.class_name(metric) == "CatMetric" for metric in update.metrics)


def _keep_tensor(model: Model, update: Update, read: HostRead) -> Fix | None:
    """Pass the tensor: the metric casts it as it cast the number."""
    # Integers have no gradient to detach.
    cut = "" if (model.value(read.tensor).dtype or "").startswith(("int", "uint", "bool")) else ".detach()"
    text = edits.postfix(read.site.tree, read.tensor) if cut else edits.text_of(read.site.tree, read.tensor)
    edit = edits.replace(read.site.tree, read.site.node, text + cut)
    arguments = [argument for argument in (update.value, update.weight) if isinstance(argument, cst.BaseExpression)]
    whole = any(argument is read.site.node for argument in arguments)
    if edit is None or _lists(update) or not (whole or _is_computed_from(model, read, arguments)):
        return None
    # Imputing writes into its argument, and tensors on different devices cannot be added.
    drops_nan = all(aggregators.drops_nan(model, metric) for metric in update.metrics)
    alone = drops_nan and not model.code.states(*_OTHER_DEVICES)
    safety = Safety.SAFE if whole and alone else Safety.UNSAFE
    return Fix("feed the tensor itself", aggregators.graded(model, update, safety), (edit,))


def _is_computed_from(model: Model, read: HostRead, arguments: list[cst.BaseExpression]) -> bool:
    """Whether the argument is the read after arithmetic with numbers."""
    node = read.site.node
    while True:
        parent = model.parent(node)
        if not isinstance(parent, cst.BinaryOperation):
            return False
        other = parent.left if parent.right is node else parent.right
        operators = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
        if not isinstance(parent.operator, operators) or not aggregators.is_number(model, other):
            return False
        if any(argument is parent for argument in arguments):
            return True
        node = parent


def _leaves_weight_out(update: Update) -> bool:
    """Whether the metric uses its default weight, which depends on the version."""
    names = map(metric_calls.class_name, update.metrics)
    return update.weight is None and any(name in torchmetrics_api.AVERAGES for name in names)


def _wrap_number(model: Model, update: Update) -> Fix | None:
    """Pass a zero-dimensional host tensor: it meets the metric's state as a kernel argument."""
    torch = model.name_of("torch", update.site)
    weight = update.weight
    if torch is None or not (weight is None or aggregators.is_number(model, weight)):
        return None
    numbers = [argument for argument in (update.value, weight) if isinstance(argument, cst.BaseExpression)]
    wrapped = [
        edits.replace(update.site.tree, number, f"{torch}.as_tensor({model.text(number)})") for number in numbers
    ]
    added: tuple[Edit, ...] | None = ()
    safety = Safety.SAFE
    if _leaves_weight_out(update):
        since = model.target.torchmetrics_is(torchmetrics_api.DISABLE_SINCE)
        if since is None:
            safety = Safety.UNSAFE
        elif not since:
            assert isinstance(update.site.node, cst.Call)
            added = edits.add_argument(update.site.tree, update.site.node, f"weight={torch}.ones(())")
            if not update.direct:
                return None
    made = edits.together(*wrapped, added)
    if made is None:
        return None
    plain = (
        aggregators.keeps_default_types(model)
        and all(aggregators.drops_nan(model, metric) for metric in update.metrics)
        and all(map(model.certain_number, numbers))
    )
    safety = aggregators.graded(model, update, safety if plain else Safety.UNSAFE)
    return Fix("give the number as a tensor on the host", safety, made)
