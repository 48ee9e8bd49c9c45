"""`MeanMetric.update` with a host number as weight, such as the old default 1.0: a copy in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import evaluating
from torchperf_lint.idioms.metrics import aggregators
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.aggregators import Update
    from torchperf_lint.model import Model

_UNCHANGED = frozenset({"detach", "clone", "contiguous"})


@rule(
    code="TPL303",
    name="mean-metric-default-weight",
    category=Category.METRICS,
    summary="a mean on the device is updated with a weight that the host has to send",
    message="`{call}` copies {weight} to the device {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the value is a tensor, the weight a Python number, and both meet in float32",
    asks=("torchmetrics",),
    triggers=("torchmetrics", tuple(sorted(torchmetrics_api.AVERAGES))),
)
def mean_metric_default_weight(model: Model) -> Iterator[Finding]:
    """Hot updates of a mean on the device, weighted by a number or by the default before torchmetrics 1.6.2."""
    sends_default = model.target.torchmetrics_is(torchmetrics_api.SENDS_DEFAULT_WEIGHT)
    for update in aggregators.hot_updates(model):
        if not update.direct or not update.averages:
            continue
        weight = update.weight
        fields = {"call": f"{model.text(update.site.node.func)}(...)", "where": update.hot_path.where}
        because = (*update.because, *update.hot_path.because)
        if weight is None and sends_default and (_is_device_tensor(model, update) or update.reads):
            fields["weight"] = "the default weight 1.0"
            because = (*because, *model.target_evidence("torchmetrics"))
            yield Finding(update.site, because, _send_ones(model, update), fields)
        elif (
            isinstance(weight, cst.BaseExpression)
            and aggregators.is_number(model, weight)
            and not any(read.site.node is not update.value for read in update.reads)
            and (_is_device_tensor(model, update) or update.read_of(update.value))
        ):
            fields["weight"] = f"the weight `{model.text(weight)}`"
            yield Finding(model.site(weight), because, _fill(model, update, weight), fields)


def _is_device_tensor(model: Model, update: Update) -> bool:
    return model.on_device(update.value) is not None


def _tensor(model: Model, update: Update) -> cst.BaseExpression | None:
    """The tensor that gives the new weight's device; None where its text cannot be repeated."""
    read = update.read_of(update.value)
    tensor = update.value if read is None else read.tensor
    tensor = shape.without_calls(tensor, _UNCHANGED)
    is_item = isinstance(tensor, cst.Subscript) and shape.dotted(tensor.value) is not None
    is_path = shape.dotted(tensor) is not None or is_item
    return tensor if is_path and evaluating.written_twice(model, tensor) is not None else None


def _is_certain(model: Model, update: Update, tensor: cst.BaseExpression) -> bool:
    """Whether the value is a tensor on every path, the same when read again, and NaN values are not imputed."""
    is_tensor = model.value(tensor).is_tensor or model.sent_backward(tensor)
    is_tensor = is_tensor and evaluating.written_twice(model, tensor) is Safety.SAFE
    return is_tensor and all(aggregators.drops_nan(model, metric) for metric in update.metrics)


def _send_ones(model: Model, update: Update) -> Fix | None:
    """Create the weights of one on the value's device."""
    torch, tensor = model.name_of("torch", update.site), _tensor(model, update)
    if torch is None or tensor is None:
        return None
    if update.read_of(update.value) is not None and model.value(tensor).scalar is not True:
        return None  # A weight with a dimension does not fit a scalar value.
    assert isinstance(update.site.node, cst.Call)
    added = edits.add_argument(update.site.tree, update.site.node, f"weight={torch}.ones_like({model.text(tensor)})")
    safety = aggregators.graded(model, update, Safety.SAFE if _is_certain(model, update, tensor) else Safety.UNSAFE)
    return None if added is None else Fix("build the default weight on the device", safety, added)


def _fill(model: Model, update: Update, weight: cst.BaseExpression) -> Fix | None:
    """Create the weight on the device, in the shape that it is broadcast to anyway."""
    torch, tensor = model.name_of("torch", update.site), _tensor(model, update)
    if torch is None or tensor is None:
        return None
    text, number = model.text(tensor), model.text(weight)
    scalar = model.value(tensor).scalar is True
    if scalar:
        built = f"{torch}.full_like({text}, {number}, dtype={torch}.float32)"
    elif update.read_of(update.value) is None:
        # Summing a filled tensor rounds differently from summing one broadcast number: keep it one number.
        built = f"{torch}.full((), {number}, dtype={torch}.float32, device={text}.device)"
    else:
        return None
    edit = edits.replace(update.site.tree, weight, built)
    if edit is None:
        return None
    certain = aggregators.keeps_default_types(model) and _is_certain(model, update, tensor)
    certain = certain and model.certain_number(weight)
    safety = aggregators.graded(model, update, Safety.SAFE if certain else Safety.UNSAFE)
    return Fix("build the weight on the device", safety, (edit,))
