"""The bases of classes, from imports and definitions alone where possible, so results are the same at every level."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.project.exports import Imported
from torchperf_lint.model.syntax.index import ClassInfo, dotted

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions


def lineage(inference: ValueQuestions, cls: ClassInfo) -> list[ClassInfo]:
    """The class and its bases in the program, nearest first."""
    found = [cls]
    for current in found:
        for value in _bases(inference, current):
            is_new = value.kind is Kind.CLASS and value.cls is not None and value.cls not in found
            if is_new and value.cls is not None and len(found) < bounds.MOST_BASES:
                found.append(value.cls)
    return found


def library_bases(inference: ValueQuestions, classes: list[ClassInfo]) -> list[str]:
    """Qualified names of the library classes that are direct bases of these classes."""
    refs: list[str] = []
    for value in (value for cls in classes for value in _bases(inference, cls) if value.ref is not None):
        if value.kind is Kind.LIBRARY:
            refs.append(frameworks.canonical(value.ref or ""))
        elif value.kind is Kind.METRIC:
            refs.append(value.ref or "")
    return refs


def _bases(inference: ValueQuestions, cls: ClassInfo) -> list[Value]:
    home = inference if inference.program is None else inference.program.inference(cls.index, 0)
    nodes = [base.value if isinstance(base, ast.Subscript) else base for base in cls.node.bases]
    return [_base(home, cls, node) for node in nodes]


def _base(home: ValueQuestions, cls: ClassInfo, node: ast.expr) -> Value:
    path = dotted(node)
    module = home.index.module
    if path is not None and cls.scope is module:
        root, _, rest = path.partition(".")
        found = home.exports.meanings.get(root)
        if home.index.bound_names(module).count(root) == 1:
            if isinstance(found, Imported):
                return home.names.imported(f"{found.ref}.{rest}" if rest else found.ref)
            if isinstance(found, ClassInfo) and not rest:
                return Value(Kind.CLASS, cls=found)
    return home.seen_alone(cls.scope, node)
