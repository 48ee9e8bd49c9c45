"""The bases of classes, from imports and definitions alone where possible, so that no value is asked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.project.exports import Imported
from torchperf_lint.model.syntax.index import ClassInfo, dotted

if TYPE_CHECKING:
    from typing import TypeGuard

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


def acts_as_module(inference: ValueQuestions, classes: list[ClassInfo]) -> bool:
    """Whether a class with these bases, one of them of an unknown library, does what only an nn.Module does.

    It makes parameters, registers buffers, or has a `forward` over torch's layers that it keeps.
    """
    has_forward = any("forward" in cls.methods for cls in classes)
    own = {name for cls in classes for name in cls.methods}
    for cls in classes:
        meanings = inference.home(cls.index).exports.meanings
        for method in cls.methods.values():
            for record in method.calls_made:
                path = dotted(record.call.func) or ""
                root, _, rest = path.partition(".")
                if root == method.self_name and rest in torch_api.REGISTERING_METHODS and rest not in own:
                    return True
                if not _is_kept(record.statement, method.self_name):
                    continue
                found = meanings.get(root)
                ref = frameworks.canonical(f"{found.ref}.{rest}" if rest else found.ref) if _is(found) else ""
                if ref == torch_api.PARAMETER or (has_forward and ref.startswith("torch.nn.") and path[-1:] != "_"):
                    return True
    return False


def _is(found: object) -> TypeGuard[Imported]:
    return isinstance(found, Imported)


def _is_kept(statement: ast.stmt, self_name: str | None) -> bool:
    """`self.x = ...`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(
        isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == self_name
        for each in targets
    )


def _bases(inference: ValueQuestions, cls: ClassInfo) -> list[Value]:
    home = inference.home(cls.index)
    nodes = [base.value if isinstance(base, ast.Subscript) else base for base in cls.head.bases]
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
