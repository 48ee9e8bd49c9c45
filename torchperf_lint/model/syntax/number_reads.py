"""Names that are read as one number in any case: `i.item()` behind `i = order[0]` in the same block."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_PERHAPS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Compare)


def is_read_as_number(function: FunctionInfo, bound: ast.Assign) -> bool:
    """Whether the statement alone binds its name, and the next one calls `item()` on it in any case.

    What raises there because it is no single element may be caught: then nothing is known.
    """
    target = bound.targets[0]
    if function.is_module or len(bound.targets) != 1 or not isinstance(target, ast.Name):
        return False
    place = function.place_of(bound)
    if function.bound_names.count(target.id) != 1 or any(isinstance(each, ast.Try) for each in place.around()):
        return False
    following = place.block[place.position + 1 : place.position + 2]
    return any(isinstance(each, _SIMPLE) and _reads(each, target.id) for each in following)


def _reads(statement: ast.stmt, name: str) -> bool:
    nodes = list(subtree(statement))
    if any(isinstance(each, _PERHAPS) for each in nodes):
        return False
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "item"
        and isinstance(each.func.value, ast.Name)
        and each.func.value.id == name
        for each in nodes
    )
