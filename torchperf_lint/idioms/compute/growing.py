"""Tensors that a loop grows by concatenation in each pass."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_Loop = ast.For | ast.AsyncFor | ast.While


def growth(model: Model, site: Site, loop: _Loop) -> str | None:
    """The name that the concatenation at the site extends, if this innermost loop only collects it; else None."""
    call, place = model.ast_of(site.node), model.place(site.node)
    statement = place.statement
    name = _target(statement, call)
    if place.loops()[:1] != [loop] or name is None or not isinstance(call, ast.Call) or not _adds_to(call, name):
        return None
    other_stores = [each for each in _stores(loop, name) if each is not statement]
    if any(not _begins(model, each, statement) for each in other_stores) or _is_read(loop, name, call):
        return None
    begun = {id(each) for start in other_stores for each in subtree(start)}
    if isinstance(loop, ast.While) and any(id(each) not in begun for each in _names(loop.test, name)):
        return None
    return name


def _target(statement: ast.stmt, call: ast.expr | None) -> str | None:
    """The name bound to the concatenation alone, or to its first part while there is nothing yet."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    value = statement.value
    is_whole = value is call or (isinstance(value, ast.IfExp) and call in (value.body, value.orelse))
    target = statement.targets[0]
    return target.id if is_whole and isinstance(target, ast.Name) else None


def _adds_to(call: ast.Call, name: str) -> bool:
    """Whether the name is the first, or the last, of two or more parts."""
    parts = call.args
    if len(parts) == 1 or not isinstance(parts[0], ast.Name):
        whole = parts[0] if parts else None
        parts = whole.elts if isinstance(whole, (ast.List, ast.Tuple)) else []
    named = [isinstance(each, ast.Name) and each.id == name for each in parts]
    return len(parts) > 1 and named.count(True) == 1 and (named[0] or named[-1])


def _stores(loop: _Loop, name: str) -> Iterator[ast.AST]:
    """The statements, and targets of loops and `with`, that bind the name in the loop."""
    for node in subtree(loop):
        if isinstance(node, ast.Assign):
            if any(_is(each, name, ast.Store) for target in node.targets for each in subtree(target)):
                yield node
        elif isinstance(node, ast.stmt | ast.NamedExpr | ast.comprehension | ast.withitem):
            target = getattr(node, "target", getattr(node, "optional_vars", None))
            targets = node.targets if isinstance(node, ast.Delete) else [target]
            if any(isinstance(t, ast.AST) and any(_is(each, name) for each in subtree(t)) for t in targets):
                yield node


def _begins(model: Model, start: ast.AST, statement: ast.stmt) -> bool:
    """Whether the statement initializes the name: in the other branch of an `if`."""
    if not isinstance(start, ast.Assign) or len(start.targets) != 1 or not isinstance(start.targets[0], ast.Name):
        return False
    one, other = model.place_of(start), model.place_of(statement)
    return isinstance(one.parent, ast.If) and one.parent is other.parent and one.field != other.field


def _is_read(loop: _Loop, name: str, call: ast.Call) -> bool:
    """Whether the loop reads the collected tensor before it ends, other than to test whether there is one yet."""
    allowed = {id(each) for each in subtree(call)}
    for node in subtree(loop):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and dotted(node.left) == name:
            allowed.add(id(node.left))
        elif isinstance(node, ast.Return) and node.value is not None:
            allowed |= {id(each) for each in subtree(node.value)}
    uses = [each for each in _names(loop, name) if id(each) not in allowed]
    inside_call = list(_names(call, name))
    return bool(uses) or len(inside_call) > 1


def _names(node: ast.AST, name: str) -> Iterator[ast.Name]:
    for each in subtree(node):
        if isinstance(each, ast.Name) and _is(each, name, ast.Load):
            yield each


def _is(node: ast.AST, name: str, context: type[ast.expr_context] = ast.expr_context) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, context)
