"""Objects that a method makes of its own object's parts: `Batch({k: v[rows] for k, v in self.data.items()})`.

What such a call passes depends on itself, and so it is not known. It says nothing that other calls do not say, where
the method only takes views and copies of the parts.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.syntax.index import FunctionInfo

_PLAIN = "clone contiguous detach cat stack len range slice isinstance type zip enumerate items keys values append"
_KEEP = torch_api.VIEW_METHODS | torch_api.DTYPE_METHODS.keys() | frozenset(_PLAIN.split())
"""Calls that leave parts where they are, or tell only what they are."""


def passed_on(method: FunctionInfo) -> Callable[[ast.expr], bool]:
    """Whether an expression is made of the object's parts, of which its method only takes views and copies."""
    named = method.note(("made of own parts", method), lambda: _made_of_own_parts(method))
    return lambda node: _mentions(node, named)


def _made_of_own_parts(method: FunctionInfo) -> frozenset[str]:
    """The names in a method that stand for its object, or for what is made of it; none if it calls anything else."""
    called = {last_name(node.func) for node in method.nodes if isinstance(node, ast.Call)}
    if method.self_name is None or method.cls is None or not called <= {*_KEEP, method.cls.name}:
        return frozenset()
    found = {method.self_name}
    for statement in method.statements:
        if isinstance(statement, ast.Assign) and _mentions(statement.value, found):
            found.update(name for target in statement.targets for name in _names(target))
        elif isinstance(statement, (ast.For, ast.AsyncFor)) and _mentions(statement.iter, found):
            found.update(_names(statement.target))
    return frozenset(found)


def _mentions(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    return not names.isdisjoint(_names(node))


def _names(node: ast.expr) -> list[str]:
    return [each.id for each in subtree(node) if isinstance(each, ast.Name)]
