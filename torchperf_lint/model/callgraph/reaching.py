"""Reaching definitions: which bindings of a name may hold where its function reads it, from the text alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.callgraph import trees
from torchperf_lint.model.syntax import finding

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo

_Inside = dict[ast.stmt, set[ast.stmt]]


def reaches(binding: ast.stmt, use: ast.expr, name: str, function: FunctionInfo) -> bool:
    """Whether a value that the statement binds to the name may be there where the function itself reads it.

    A lambda reads it later, when it is called.
    """
    statement = trees.upside_down(function.index).statement_of(use)
    if finding.lambda_around(function.index, use, statement) is not None:
        return True
    question = ("reaching", name, statement, function)
    return binding in function.index.note(question, lambda: _reaching(statement, name, function))


def _reaching(statement: ast.stmt, name: str, function: FunctionInfo) -> set[ast.stmt]:
    """The statements whose binding of the name may hold at the statement: up to one that always binds it."""
    places = function.index.places
    inside = function.index.note(("bindings", function), lambda: _bindings(function)).get(name, {})
    found: set[ast.stmt] = set()
    if name in _bound_by_head(statement):
        found.add(statement)  # `while (f := g()):`, `for f in f.parts`
    while True:
        place = places[statement]
        for earlier in reversed(place.block[: place.position]):
            found |= inside.get(earlier, set())
            if name in _always_bound(earlier):
                return found
        parent = place.parent
        if parent is None:
            return found
        is_loop = isinstance(parent, (ast.For, ast.AsyncFor, ast.While))
        if is_loop or isinstance(parent, ast.Try):
            found |= inside.get(parent, set())
        if name in _bound_by_head(parent):
            found.add(parent)
            if place.field == "body" and not isinstance(parent, ast.If):
                return found
        statement = parent


def _bindings(function: FunctionInfo) -> dict[str, _Inside]:
    """Name -> each statement -> the statements in it, or itself, that bind the name."""
    places, tree = function.index.places, trees.upside_down(function.index)
    found: dict[str, _Inside] = {}
    for node in function.nodes:
        if not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load):
            continue
        binding = tree.statement_of(node)
        if binding not in places or places[binding].function is not function:
            continue
        around: ast.stmt | None = binding
        while around is not None:
            found.setdefault(node.id, {}).setdefault(around, set()).add(binding)
            around = places[around].parent
    return found


def _always_bound(statement: ast.stmt) -> set[str]:
    """The names that are bound whenever the statement has run."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.AnnAssign):
        return _names(statement.target) if statement.value is not None else set()
    if isinstance(statement, ast.Assign):
        return {name for target in statement.targets for name in _names(target)}
    return _bound_by_head(statement) if isinstance(statement, (ast.With, ast.AsyncWith)) else set()


def _bound_by_head(statement: ast.stmt) -> set[str]:
    """The names that the head of a compound statement binds before its body."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return _names(statement.target)
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return {name for item in statement.items if item.optional_vars for name in _names(item.optional_vars)}
    if isinstance(statement, (ast.If, ast.While)):
        return {each.target.id for each in ast.walk(statement.test) if isinstance(each, ast.NamedExpr)}
    return set()


def _names(target: ast.expr) -> set[str]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for each in target.elts for name in _names(each)}
    return {target.id} if isinstance(target, ast.Name) else set()
