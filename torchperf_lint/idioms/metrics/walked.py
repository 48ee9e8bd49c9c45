"""Metrics that a loop or comprehension takes from a dict or list one by one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.handles import names_in
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import MetricCall
    from torchperf_lint.model import Model

_VIEWS = frozenset({"values", "items"})
_COPIES = frozenset({"list", "tuple", "enumerate", "sorted", "reversed"})


def walked(model: Model, each: MetricCall) -> list[Value]:
    """The metrics that the call's receiver may be, one per pass; empty unless all are known."""
    if not isinstance(each.receiver, cst.Name):
        return []
    held = next((_held(model, each, node) for node in _walked_over(model, each, each.receiver.value)), None)
    items = [] if held is None or held.kind is not Kind.CONTAINER else [item for _, item in held.items or ()]
    return items if all(item.kind is Kind.METRIC and item.created is not None for item in items) else []


def _walked_over(model: Model, each: MetricCall, name: str) -> Iterator[ast.expr]:
    """The iterables of the comprehensions and loops around the call that bind the name, innermost first."""
    call, place = model.ast_of(each.call), model.place(each.call)
    around = []
    for node in subtree(place.statement) if call is not None else ():
        generators = getattr(node, "generators", ()) if isinstance(node, ast.expr) else ()
        if generators and any(inner is call for inner in subtree(node)):
            around += [part for part in generators if name in names_in(part.target)]
    yield from (part.iter for part in reversed(around))
    for loop in place.loops():
        if isinstance(loop, (ast.For, ast.AsyncFor)) and name in names_in(loop.target):
            yield loop.iter


def _held(model: Model, each: MetricCall, node: ast.expr) -> Value:
    """The dict or list that is iterated: `metrics` of `metrics.items()`, `list(metrics.values())`."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and not node.args:
            node = node.func.value
        elif isinstance(node.func, ast.Name) and node.func.id in _COPIES and node.args:
            node = node.args[0]
        else:
            break
    return model.value_in(model.function_of(each.site), node)
