"""Metrics defined in the program: subclasses that update exactly like the torchmetrics aggregator they inherit from."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.domain.values import Kind, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo

_OWN_METHODS = frozenset({"compute", "plot", "__repr__", "__str__", torchmetrics_api.NAN_CHECK})
"""Methods that a subclass may define without changing how it updates; any other method might call `update`."""

_OWN_ATTRIBUTES = frozenset({"full_state_update", "higher_is_better", "is_differentiable", "__doc__", "__slots__"})


def base_given(bases: Sequence[Value]) -> str | None:
    """The aggregator that is a class's only base, if the base is a parameter of the function around the class."""
    only = bases[0] if len(bases) == 1 else Value()
    is_known = only.kind is Kind.CLASS or (only.kind is Kind.LIBRARY and _aggregator_named(only.ref) is not None)
    return only.ref if is_known else None


def aggregator(inference: ValueQuestions, cls: ClassInfo, given: str | None) -> str | None:
    """`torchmetrics.MeanMetric` for a class that updates like it; None for any other.

    `given` is its base if that is a parameter of the function around the class.
    """
    refs = inference.library_bases(cls) or [given or ""]
    ref = _aggregator_named(refs[0])
    return ref if ref is not None and len(refs) == 1 and all(map(_is_fed_alike, inference.lineage(cls))) else None


def _aggregator_named(ref: str | None) -> str | None:
    metric = torchmetrics_api.metric_class(ref or "")
    return metric if metric is not None and metric.rpartition(".")[2] in torchmetrics_api.AGGREGATORS else None


def _is_fed_alike(cls: ClassInfo) -> bool:
    node = cls.node
    if len(node.bases) != 1 or node.keywords or node.decorator_list:
        return False
    body = (each for each in node.body if not isinstance(each, (ast.FunctionDef, ast.Pass)))
    is_plain = all(isinstance(each, (ast.Assign, ast.AnnAssign)) or _is_text(each) for each in body)
    return is_plain and cls.methods.keys() <= _OWN_METHODS and cls.attributes.keys() <= _OWN_ATTRIBUTES


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
