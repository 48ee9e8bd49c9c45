"""Metrics that have the same state and are updated separately with the same arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.metrics.metric_calls import FORWARD, made
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.handles import names_bound_in
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import Made
    from torchperf_lint.model import HotPath, Model, Site


class Shared(NamedTuple):
    """Two or more metrics with one state, and where the first of them is updated in every step."""

    site: Site
    names: tuple[str, ...]  # of their classes
    made: tuple[Made, ...]
    hot_path: HotPath


class _Fed(NamedTuple):
    made: Made
    site: Site
    statement: ast.stmt
    block: object
    arguments: tuple[str, ...]
    reads: frozenset[str]
    hot_path: HotPath


def shared_states(model: Model) -> Iterator[Shared]:
    """The groups of metrics on the device that one `MetricCollection` would update together, in source order."""
    groups: dict[object, list[_Fed]] = {}
    for each in made(model):
        state = _state(model, each)
        for fed in _fed(model, each) if state is not None else ():
            groups.setdefault((state, fed.arguments, id(fed.block)), []).append(fed)
    found = []
    for group in groups.values():
        group.sort(key=lambda fed: fed.site.start)
        alike = [fed for fed in group if _sees_the_same(group[0], fed)]
        metrics = {fed.made.site.start: fed.made for fed in alike}
        if len(metrics) > 1:
            names = tuple(each.class_name for each in metrics.values())
            found.append(Shared(alike[0].site, names, tuple(metrics.values()), alike[0].hot_path))
    yield from sorted(found, key=lambda shared: shared.site.start)


def _state(model: Model, each: Made) -> object | None:
    """The identity of a metric's state: its family and the arguments that shape it; None if unknown."""
    name = each.class_name
    task = next((task for task in torchmetrics_api.TASKS if name.startswith(task)), "")
    kind = name.removeprefix(task)
    family = next((place for place, names in enumerate(torchmetrics_api.SHARED_STATES) if kind in names), None)
    call = each.site.node
    assert isinstance(call, cst.Call)
    if family is None or any(argument.star for argument in call.args):
        return None
    if not task and shape.argument(call, "task", 0) is None:
        return None
    positional = [model.text(argument.value) for argument in call.args if argument.keyword is None]
    if kind == "FBetaScore" and task and positional:
        positional = positional[1:]
    named = {
        argument.keyword.value: model.text(argument.value)
        for argument in call.args
        if argument.keyword is not None and argument.keyword.value not in torchmetrics_api.ONLY_FOR_COMPUTE
    }
    for place, parameter in zip(range(len(positional)), _parameters(task), strict=False):
        named[parameter] = positional[place]
    known = len(positional) <= len(_parameters(task))
    # The confusion matrix does not depend on the average; the counts do.
    if family != 0:
        named.pop("average", None)
    return (family, task, tuple(sorted(named.items()))) if known else None


def _parameters(task: str) -> tuple[str, ...]:
    """The leading parameters of all classes of a task."""
    return {"Binary": (), "Multiclass": ("num_classes",), "Multilabel": ("num_labels",)}.get(task, ("task",))


def _fed(model: Model, each: Made) -> Iterator[_Fed]:
    """The calls that update the metric in every step, directly and not through a collection."""
    for name, site in model.object_calls(each.metric)[0]:
        call, hot_path = site.node, model.hot_path(site)
        assert isinstance(call, cst.Call)
        if hot_path is None or name not in ("update", *FORWARD) or any(argument.star for argument in call.args):
            continue
        receiver = call.func.value if isinstance(call.func, cst.Attribute) and name != "__call__" else call.func
        value = model.value(receiver)
        if value.ref == torchmetrics_api.COLLECTION or not _is_on_device(model, call):
            continue
        arguments = tuple(
            f"{argument.keyword.value if argument.keyword else ''}={model.text(argument.value)}"
            for argument in call.args
        )
        reads = frozenset(name.value for argument in call.args for name in shape.names_in(argument.value))
        place = model.place(call)
        yield _Fed(each, site, place.statement, place.block, arguments, reads, hot_path)


def _is_on_device(model: Model, call: cst.Call) -> bool:
    return any(model.on_device(argument.value) is not None for argument in call.args)


def _sees_the_same(first: _Fed, other: _Fed) -> bool:
    """Whether no statement from the first update to the other one binds a name that the arguments read."""
    block = first.block
    assert isinstance(block, list)
    start, end = block.index(first.statement), block.index(other.statement)
    return not any(names_bound_in(statement) & first.reads for statement in block[start:end])
