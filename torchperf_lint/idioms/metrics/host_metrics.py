"""Scores of host libraries, computed from tensors that are fetched from the device for them."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.idioms.metrics.metric_calls import FORWARD, hot_metric_calls
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.syntax import shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.idioms.metrics.metric_calls import MetricCall
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

LIBRARIES = ("sklearn.metrics.", "skimage.metrics.")
_NO_SCORES = ("pairwise", "distances", "kernel", "scorer", "similarity.", "make_", "get_", "check_")
_FETCHES = frozenset({"cpu", "numpy", "tolist"})
_KEPT_BY_NAME = 6
"""How many names an argument is traced through."""


class HostMetric(NamedTuple):
    """A call of a host score in code that runs in every step."""

    site: Site
    function: str  # `sklearn.metrics.f1_score`
    fetches: tuple[ast.Call, ...]
    hot_path: HotPath
    because: tuple[Because, ...]


def host_metrics(model: Model) -> tuple[HostMetric, ...]:
    """The calls of host scores, in every step, on data from the device, in source order."""
    return model.remember("host_metrics", lambda: tuple(_host_metrics(model)))


def feeds_host_metric(model: Model, site: Site) -> bool:
    """Whether the call at the site is part of fetching a tensor for a score or a metric on the host."""
    for metric in (*host_metrics(model), *mismatches(model)):
        for fetch in metric.fetches:
            first = model.source.offset(fetch.lineno, fetch.col_offset)
            last = model.source.offset(fetch.end_lineno or 0, fetch.end_col_offset or 0)
            if first <= site.start < last:
                return True
    return False


def _host_metrics(model: Model) -> Iterator[HostMetric]:
    if not model.mentions("sklearn", "skimage"):
        return
    names = tuple(sorted(model.called_names))

    def is_score(record: CallRecord) -> bool:
        value = model.callee(record)
        return value.kind is Kind.LIBRARY and _is_score(value.ref or "")

    for site in model.sites(names, True, is_score, near_device=False):
        call, hot_path = model.ast_of(site.node), model.hot_path(site)
        if hot_path is None or not isinstance(call, ast.Call):
            continue
        found = _Fetches(model, model.function_of(site))
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            found.look_into(argument)
        if found.calls:
            ref = model.value(site.node.func).ref or ""
            yield HostMetric(site, ref, tuple(found.calls), hot_path, (_fetched_at(found.calls[0]),))


def _fetched_at(fetch: ast.Call) -> Because:
    return Because(fetch.lineno, f"`{ast.unparse(fetch)}` fetches it from the device")


def mismatches(model: Model) -> tuple[HostMetric, ...]:
    """The updates, in every step, of host metrics with tensors that are fetched for nothing else."""
    return model.remember("mismatches", lambda: tuple(_mismatches(model)))


def _mismatches(model: Model) -> Iterator[HostMetric]:
    if not model.mentions("torchmetrics"):
        return
    updates = [
        each
        for each in hot_metric_calls(model)
        if each.name in ("update", *FORWARD)
        and each.metric.created is not None
        and not each.metric.device.on_accelerator
        and _keeps_numbers(model, each)
    ]
    calls = [call for each in updates if isinstance(call := model.ast_of(each.site.node), ast.Call)]
    for each in updates:
        call = model.ast_of(each.site.node)
        if not isinstance(call, ast.Call):
            continue
        function = model.function_of(each.site)
        found = _Fetches(model, function, functools.partial(_only_read_by, calls, function))
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            found.look_into(argument)
        if found.calls:
            because = (_fetched_at(found.calls[0]),)
            yield HostMetric(each.site, each.class_name, tuple(found.calls), each.hot_path, because)


def _keeps_numbers(model: Model, each: MetricCall) -> bool:
    """Whether the metric's state is a few numbers or a confusion matrix, which fits on the device."""
    site = model.creation(each.metric)
    if site is None or shape.argument(site.node, "compute_on_cpu") is not None:
        return False
    name = each.class_name
    for task in torchmetrics_api.TASKS:
        name = name.removeprefix(task)
    small = torchmetrics_api.SHARED_STATES[0] | torchmetrics_api.SHARED_STATES[1] | torchmetrics_api.ADDS_EXACTLY
    return name in small


def _only_read_by(calls: list[ast.Call], function: FunctionInfo, name: str) -> bool:
    """Whether only the updates read the name."""
    inside = {id(part) for call in calls for part in subtree(call)}
    loads = (
        node
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )
    return all(id(node) in inside for node in loads)


def _is_score(ref: str) -> bool:
    name = ref.rpartition(".")[2]
    return ref.startswith(LIBRARIES) and name[:1].islower() and not any(word in ref for word in _NO_SCORES)


class _Fetches:
    """The calls that fetch device tensors for an expression, in the same step."""

    def __init__(
        self, model: Model, function: FunctionInfo, may_follow: Callable[[str], bool] = lambda name: True
    ) -> None:
        self._model = model
        self._function = function
        self._may_follow = may_follow
        self._names: set[str] = set()
        self.calls: list[ast.Call] = []

    def look_into(self, node: ast.expr) -> None:
        """Record the calls in the expression, and in the values that its names are bound to."""
        for part in subtree(node):
            if isinstance(part, ast.Call) and self._fetches(part):
                if not any(_holds(known, part) for known in self.calls):
                    self.calls.append(part)
            elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and len(self._names) < _KEPT_BY_NAME:
                self._follow(part.id)

    def _follow(self, name: str) -> None:
        if name in self._names or name in self._function.parameter_names or not self._may_follow(name):
            return
        self._names.add(name)
        for bound in self._model.hot_bindings(self._function, name):
            self.look_into(bound)

    def _fetches(self, call: ast.Call) -> bool:
        """`x.cpu()`, `x.detach().cpu().numpy()` of a tensor on the device."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _FETCHES:
            return False
        node: ast.expr = call.func.value
        while True:
            value = self._value(node)
            if value.holds_tensors and not value.mixed and value.device.on_accelerator:
                return True
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                return False
            node = node.func.value

    def _value(self, node: ast.expr) -> Value:
        return self._model.value_in(self._function, node)


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(node is inner for node in subtree(outer))
