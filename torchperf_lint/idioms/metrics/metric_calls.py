"""Calls of torchmetrics metrics of any class in every step, and the calls that make metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site, Value
    from torchperf_lint.model.handles import CallRecord

METHODS = ("update", "forward", "__call__", "compute", "reset")
FORWARD = ("forward", "__call__")


class MetricCall(NamedTuple):
    """`metric(...)`, `metric.update(...)`, `metric.compute()` in code that runs in every step."""

    site: Site
    name: str  # the method; `__call__` for a call of the metric itself
    receiver: cst.BaseExpression
    metric: Value
    hot_path: HotPath
    because: tuple[Because, ...]  # evidence of the metric's device and class

    @property
    def call(self) -> cst.Call:
        """The call itself."""
        node = self.site.node
        assert isinstance(node, cst.Call)
        return node

    @property
    def class_name(self) -> str:
        """`MulticlassAccuracy`, `MetricCollection`; `metric` if the class is unknown."""
        return (self.metric.ref or "").rpartition(".")[2] or "metric"


def tests_itself(model: Model, metric: Value) -> bool:
    """Whether the metric's class is in the project and overrides the NaN check."""
    return model.has_method(metric, torchmetrics_api.NAN_CHECK)


def descent(model: Model, metric: Value) -> tuple[Because, ...]:
    """Evidence that the metric is an aggregator, if another file defines its class."""
    cls = metric.cls
    if cls is None or model.has(cls):
        return ()
    return (Because(cls.row, f"`{cls.name}` descends from `{class_name(metric)}`", cls.path),)


def aggregates(model: Model, metric: Value) -> bool:
    """Whether it is a torchmetrics aggregator that copies the numbers it is updated with, and also takes tensors."""
    name = class_name(metric)
    if metric.kind is not Kind.METRIC or name not in torchmetrics_api.AGGREGATORS:
        return False
    casts = name == "MeanMetric" and model.target.torchmetrics_is(torchmetrics_api.CASTS_ITSELF_SINCE) is not False
    return casts or not tests_itself(model, metric)


def class_name(metric: Value) -> str:
    """The torchmetrics class of a metric, even if it is of a subclass: `MeanMetric`."""
    return (metric.ref or "").rpartition(".")[2]


def hot_metric_calls(model: Model) -> tuple[MetricCall, ...]:
    """The calls of metrics of a known class in every step, in source order."""
    return tuple(each for each in hot_calls_of_any(model) if each.metric.ref is not None)


def hot_calls_of_any(model: Model) -> tuple[MetricCall, ...]:
    """The same, including metrics that may have one of several classes."""
    return model.remember("hot_metric_calls", lambda: tuple(_hot_metric_calls(model)))


def _hot_metric_calls(model: Model) -> Iterator[MetricCall]:
    for site in model.calls_of_kind(Kind.METRIC, *METHODS, hot=True):
        call, hot_path = site.node, model.hot_path(site)
        if hot_path is None:
            continue
        receiver, name = call.func, "__call__"
        if isinstance(call.func, cst.Attribute) and model.value(call.func).kind is not Kind.METRIC:
            receiver, name = call.func.value, call.func.attr.value
        metric = model.value(receiver)
        if not model.has_method(metric, "compute"):  # a class of the project may override `compute`
            yield MetricCall(site, name, receiver, metric, hot_path, (*metric.because, *descent(model, metric)))


class Made(NamedTuple):
    """A call that makes a metric."""

    site: Site
    metric: Value

    @property
    def class_name(self) -> str:
        """`MulticlassAccuracy`."""
        return (self.metric.ref or "").rpartition(".")[2]


def made_with(model: Model, keyword: str) -> Iterator[Made]:
    """The calls that make a metric with this argument, in source order."""
    named = {
        last_name(record.call.func) or ""
        for record in model.all_calls
        if any(each.arg == keyword for each in record.call.keywords)
    }

    def makes_metric(record: CallRecord) -> bool:
        return any(each.arg == keyword for each in record.call.keywords) and _is_made(model, record) is not None

    for site in model.sites(tuple(sorted(named)), False, makes_metric):
        yield Made(site, model.value(site.node))


def made(model: Model) -> tuple[Made, ...]:
    """All calls that make a metric in this file, in source order."""
    return model.remember("made_metrics", lambda: tuple(_made(model)))


def _made(model: Model) -> Iterator[Made]:
    names = tuple(sorted(name for name in model.called_names if name[:1].isupper()))
    for site in model.sites(names, False, lambda record: _is_made(model, record) is not None):
        yield Made(site, model.value(site.node))


def _is_made(model: Model, record: CallRecord) -> Value | None:
    value = model.value_in(record.function, record.call)
    return value if value.kind is Kind.METRIC and value.created is record.call else None


def members(metric: Value) -> list[Value]:
    """The metrics of a collection; a single metric is its own member."""
    if metric.ref != torchmetrics_api.COLLECTION:
        return [metric]
    return [item for _, item in metric.items or ()] or ([] if metric.element is None else [metric.element])
