"""How a block is left at its end."""

from __future__ import annotations

import ast

from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import subtree

_EXITS = frozenset({"exit", "quit", "_exit", "abort"})
_ERRORS_BY_KIND = frozenset({"AttributeError", "TypeError", "KeyError", "ImportError"})


def jump_at_end(block: list[ast.stmt]) -> type | None:
    """How a block jumps at its end: Break, Return, Continue or Raise; None if it goes on."""
    last = block[-1]
    if isinstance(last, (ast.Break, ast.Return, ast.Raise, ast.Continue)):
        return type(last)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and last_name(last.value.func) in _EXITS:
        return ast.Raise
    return None


def leaves_but_for_errors(statement: ast.Try) -> bool:
    """Whether a `try` leaves by itself, and only rare errors lead behind it: not those that tell kinds of objects."""
    if statement.finalbody or jump_at_end(statement.body) is None:
        return False
    caught = {
        last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        for each in statement.handlers
        if each.type is not None and jump_at_end(each.body) is None
        for node in subtree(each.type)
    }
    return caught.isdisjoint(_ERRORS_BY_KIND)
