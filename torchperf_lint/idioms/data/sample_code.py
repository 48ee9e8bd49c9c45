"""Code that makes samples or batches in a loader: it runs on the host, between the steps."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import given_to, last_name, transforms_samples
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

_READERS = ("__getitem__", "__getitems__")
_CALLED = ("__call__", "forward", "transform", "_transform")
_KEYWORDS = ("collate_fn", "transform", "transforms", "target_transform")
_PIPELINES = ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")


def makes_samples(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that the site runs for each sample, or for each collated batch; None without evidence."""
    function = model.function_of(site)
    pending: deque[tuple[FunctionInfo, tuple[Because, ...]]] = deque([(function, ())])
    seen = {function}
    while pending and len(seen) <= bounds.MOST_CALLERS_OF_SAMPLE_CODE:
        current, way = pending.popleft()
        says = _is_entry(model, current)
        if says is not None:
            return (*way, says)
        for record in model.callers(current):
            if record.function not in seen:
                seen.add(record.function)
                step = Because(record.call.lineno, f"`{current.name}` is called here", record.function.path)
                pending.append((record.function, (*way, step)))
    return None


def _is_entry(model: Model, function: FunctionInfo) -> Because | None:
    """A dataset's `__getitem__`, a transform in a pipeline, a function passed to a loader or a dataset."""
    if function.is_module:
        return None
    row, path, there = function.row, function.path, model.home(function)
    cls = function.cls
    if cls is None:
        taken = next(_taken(there.calls_given(function.name), function.name), None)
        return (
            None if taken is None else Because(taken.lineno, f"`{function.name}` is handed over for each sample", path)
        )
    if function.name in _READERS and any(ref.endswith("Dataset") for ref in model.library_bases(cls)):
        return Because(row, f"`{cls.name}.{function.name}` makes a sample", path)
    if function.name in _CALLED:
        bases = model.library_bases(cls)
        handles_images = bool(bases) and transforms_samples(there.code)
        if handles_images or any(ref.startswith("torchvision.transforms.") for ref in bases):
            return Because(row, f"`{cls.name}.{function.name}` transforms a sample", path)
        made = there.calls_named(cls.name)
        pipelines = there.calls_named(*_PIPELINES)
        inside = [each.call for each in made if any(_holds(pipe.call, each.call) for pipe in pipelines)]
        given = [
            record.call
            for record in there.all_calls
            for keyword in record.call.keywords
            if keyword.arg in _KEYWORDS and any(keyword.value is each.call for each in made)
        ]
        if inside or given:
            return Because((inside or given)[0].lineno, f"`{cls.name}` transforms each sample", path)
        return next(_held(model, function), None)
    return None


def _held(model: Model, function: FunctionInfo) -> Iterator[Because]:
    """Evidence that an object with this method is passed by name: `collate_fn=collate`."""
    cls = function.cls
    assert cls is not None
    for there in (model.home(function), *model.models_making(cls, "DataLoader")):
        for record in there.all_calls:
            given = [keyword.value for keyword in record.call.keywords if keyword.arg in _KEYWORDS]
            given += given_to(record.call) if last_name(record.call.func) in _PIPELINES else []
            values = [model.value_in(record.function, each) for each in _in_lists(given)]
            if any(value.cls is cls and value.kind in (Kind.INSTANCE, Kind.MODULE) for value in values):
                yield Because(record.call.lineno, f"a `{cls.name}` is handed over for each sample", there.path)


def _in_lists(nodes: list[ast.expr]) -> list[ast.expr]:
    """The expressions, and the elements of literal lists among them."""
    return [each for node in nodes for each in (node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node])]


def _taken(records: list[CallRecord], name: str) -> Iterator[ast.Call]:
    """The calls that receive `name` to run it for samples: `DataLoader(..., collate_fn=name)`."""
    for record in records:
        keywords = {each.arg: each.value for each in record.call.keywords}
        named = any(last_name(keywords[each]) == name for each in _KEYWORDS if each in keywords)
        if named or (
            last_name(record.call.func) in _PIPELINES and any(last_name(e) == name for e in given_to(record.call))
        ):
            yield record.call


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(each is inner for each in subtree(outer))
