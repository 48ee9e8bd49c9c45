"""Updates of torchmetrics aggregators in every step: which metric, its arguments and its weight.

The rules of the metrics group share this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety
from torchperf_lint.idioms.metrics.metric_calls import aggregates, class_name, descent, made, tests_itself
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.edits import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import HotPath, Model, Site, Value

_UPDATES = ("update", "forward", "__call__")
_ALL_ONES = frozenset({"torch.ones_like", "torch.ones"})


class Update(NamedTuple):
    """An update of an aggregator on the device, in code that runs in every step."""

    site: Site  # the call: `metric.update(loss)` or `metric(loss)`
    metrics: tuple[Value, ...]  # the metrics that it may update: one, or the members of a collection or dict
    value: cst.BaseExpression
    weight: cst.BaseExpression | shape.Unclear | None
    reads: tuple[HostRead, ...]  # device scalars that are read for its arguments
    hot_path: HotPath
    direct: bool  # the metric itself is called, not a collection that passes its arguments on
    because: tuple[Because, ...]  # evidence that the metric is on the device, and of its class

    @property
    def averages(self) -> bool:
        """Whether every metric that it may update takes a weight."""
        return all(class_name(metric) in torchmetrics_api.AVERAGES for metric in self.metrics)

    def read_of(self, argument: object) -> HostRead | None:
        """The read that is exactly this argument."""
        return next((read for read in self.reads if read.site.node is argument), None)


def shown_name(metric: Value) -> str:
    """The name of the metric's class, for a message."""
    return class_name(metric) if metric.cls is None else metric.cls.name


def hot_updates(model: Model) -> tuple[Update, ...]:
    """The updates of aggregators on the device in every step, in source order."""
    return model.remember("hot_updates", lambda: tuple(_hot_updates(model)))


def _hot_updates(model: Model) -> Iterator[Update]:
    reads: dict[int, list[HostRead]] = {}
    for read in hot_reads(model):
        if read.role is Sink.METRIC and not read.is_mixed:
            reads.setdefault(id(read.parent), []).append(read)
    for site in model.calls_of_kind(Kind.METRIC, *_UPDATES, hot=True):
        call = site.node
        assert isinstance(call, cst.Call)
        receiver = _receiver(model, call)
        metrics = _reached(model, site, receiver)
        value = shape.argument(call, "value", 0)
        hot_path = model.hot_path(site)
        if not metrics or hot_path is None or value is None or isinstance(value, shape.Unclear):
            continue
        owner = model.value(receiver)
        if not owner.device.on_accelerator:
            continue
        weight = shape.argument(call, "weight", 1)
        direct = owner.ref != torchmetrics_api.COLLECTION
        because = (*owner.because, *dict.fromkeys(step for metric in metrics for step in descent(model, metric)))
        yield Update(site, metrics, value, weight, tuple(reads.get(id(call), ())), hot_path, direct, because)


def _receiver(model: Model, call: cst.Call) -> cst.BaseExpression:
    """The metric of `metric.update(...)` and of `metric(...)`."""
    if isinstance(call.func, cst.Attribute) and model.value(call.func).kind is not Kind.METRIC:
        return call.func.value
    return call.func


def _reached(model: Model, site: Site, receiver: cst.BaseExpression) -> tuple[Value, ...]:
    """The aggregators that a call on the receiver may update; empty if it may reach anything else."""
    value = model.value(receiver)
    found = [value]
    if isinstance(receiver, cst.Subscript) and value.created is None:
        holder = model.value(receiver.value)
        found = [item for _, item in holder.items or ()] or found
    elif value.created is None and value.ref is not None:
        # One name for several metrics, such as a parameter: those whose call paths lead here.
        found = [metric for metric in _made(model, value.ref) if _comes_to(model, metric, site)] or found
    elif value.ref == torchmetrics_api.COLLECTION:
        found = [item for _, item in value.items or ()] or ([] if value.element is None else [value.element])
    return tuple(found) if all(aggregates(model, metric) for metric in found) else ()


def _made(model: Model, ref: str) -> Iterator[Value]:
    """Every metric that the file makes of this class or a subclass."""
    for site in model.calls(ref, ref.replace("torchmetrics.", "torchmetrics.aggregation.")):
        yield model.value(site.node)
    for each in made(model):
        if each.metric.cls is not None and each.metric.ref == ref:
            yield each.metric


def _comes_to(model: Model, metric: Value, site: Site) -> bool:
    return any(call.start == site.start for _, call in model.object_calls(metric)[0])


def nan_strategy(model: Model, metric: Value) -> str | None:
    """The metric's NaN strategy (`warn` by default); None if it is not a known string."""
    site = model.creation(metric)
    if site is None or tests_itself(model, metric):
        return None
    given = strategy_argument(site, metric)
    if isinstance(given, shape.Unclear):
        return None
    strategy = "warn" if given is None else model.value(given).constant
    return strategy if isinstance(strategy, str) else None


def strategy_argument(site: Site, metric: Value) -> cst.BaseExpression | shape.Unclear | None:
    """The `nan_strategy` argument of the call that makes the metric."""
    assert isinstance(site.node, cst.Call)
    place = 1 if class_name(metric) in torchmetrics_api.FIRST_IS_WINDOW else 0
    return shape.argument(site.node, "nan_strategy", place)


def drops_nan(model: Model, metric: Value) -> bool:
    """Whether NaN values are dropped and not imputed, which writes into the caller's tensors."""
    return nan_strategy(model, metric) in ("warn", "ignore", "error", "disable")


def graded(model: Model, update: Update, safety: Safety) -> Safety:
    """The grade of a fix that changes the metrics' arguments: a NaN check of their own may see the difference."""
    return Safety.SHOWN if any(tests_itself(model, metric) for metric in update.metrics) else safety


def is_weight(model: Model, weight: cst.BaseExpression | shape.Unclear | None) -> bool:
    """Whether an update is (or may be) weighted by anything but ones."""
    if weight is None:
        return False
    if isinstance(weight, shape.Unclear):
        return True
    if isinstance(weight, cst.Call) and model.value(weight.func).ref in _ALL_ONES:
        return False
    return code_of(weight) not in ("None", "1", "1.0")


def weighted_or_unseen(model: Model, metric: Value) -> tuple[bool, Because | None]:
    """Evidence that some update of the metric passes a weight, or of where updates may be unseen."""
    calls, escape = model.object_calls(metric)
    for name, site in calls:
        if name in _UPDATES and is_weight(model, shape.argument(site.node, "weight", 1)):
            return True, escape
    return False, escape


def is_number(model: Model, node: object) -> bool:
    """Whether an argument is probably a Python number; `Model.certain_number` proves that it is one."""
    return isinstance(node, cst.BaseExpression) and model.value(node).kind is Kind.NUMBER


def keeps_default_types(model: Model) -> bool:
    """Whether the file never changes the default dtype or device, or a metric's dtype."""
    return not model.code.names("set_dtype", "set_default_dtype", "set_default_device", "set_default_tensor_type")
