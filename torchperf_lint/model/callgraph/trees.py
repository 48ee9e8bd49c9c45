"""The tree of one file upside down: the parents of its nodes, and where it reads names and attributes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import FunctionInfo
from torchperf_lint.model.syntax.reads import ByName
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import ClassInfo, Index


class UpsideDown:
    """The tree of one file upside down, and its loads of names and attributes."""

    def __init__(self, index: Index) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.names: ByName[list[ast.Name]] = index.listed(ByName())
        self.attributes: ByName[list[ast.Attribute]] = index.listed(ByName())
        self.records = {record.call: record for function in index.functions for record in function.calls_made}
        pending: list[ast.AST] = [index.tree]
        while pending:
            node = pending.pop()
            for child in children(node):
                self.parents[child] = node
                pending.append(child)
            kind = type(node)
            if kind is ast.Name and type(node.ctx) is ast.Load:  # type: ignore[attr-defined]
                self.names.setdefault(node.id, []).append(node)  # type: ignore[attr-defined, arg-type]
            elif kind is ast.Attribute and type(node.ctx) is ast.Load:  # type: ignore[attr-defined]
                self.attributes.setdefault(node.attr, []).append(node)  # type: ignore[attr-defined, arg-type]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around an expression."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node


def upside_down(index: Index) -> UpsideDown:
    """The tree of the file upside down."""
    return index.note("upside down", lambda: index.reads.unheard(lambda: UpsideDown(index)))


def owner_of(node: ast.AST, index: Index) -> FunctionInfo:
    """The function around a node; decorators and defaults belong to the function around theirs."""
    parents = upside_down(index).parents
    inner: ast.AST = node
    current = parents.get(node)
    while current is not None:
        info = index.info_of.get(current)
        if isinstance(info, FunctionInfo) and isinstance(inner, ast.stmt):
            return info
        inner, current = current, parents.get(current)
    return index.module


def class_of_self(node: ast.expr, owner: FunctionInfo) -> ClassInfo | None:
    """The class whose object a name such as `self` is, also in a nested function."""
    scope: FunctionInfo | None = owner
    while isinstance(node, ast.Name) and scope is not None:
        if scope.self_name == node.id:
            return scope.cls
        if node.id in scope.index.bound_names(scope):
            return None
        scope = scope.outer
    return None


def key_in(display: ast.AST, node: ast.AST) -> object:
    """The literal key of an entry of a dict, or the position of an element in a list; None for anything else."""
    if isinstance(display, ast.Dict):
        return next(
            (literal(key) for key, each in zip(display.keys, display.values, strict=True) if each is node), None
        )
    if isinstance(display, (ast.List, ast.Tuple)) and not any(isinstance(each, ast.Starred) for each in display.elts):
        return display.elts.index(node)  # type: ignore[arg-type]
    return None


def literal(node: ast.expr | None) -> object:
    """The literal that an expression is; None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None
