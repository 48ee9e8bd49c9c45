"""Hooks that run at the events that their class selects: Composer's algorithms, by what `match` returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.knowledge.hooks import HookTable
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo


def are_rare(inference: ValueQuestions, cls: ClassInfo, table: HookTable) -> bool:
    """Whether the class is shown to select no event that comes in every step."""
    selects = inference.method(cls, table.selected_by) if table.selected_by else None
    if selects is None:
        return False
    chosen = [_events(each.value, table) for each in selects.statements if isinstance(each, ast.Return)]
    return bool(chosen) and all(each is not None and each <= table.rare_events for each in chosen)


def _events(node: ast.expr | None, table: HookTable) -> frozenset[str] | None:
    """The events for which a condition may hold; None where it may hold for others."""
    if node is None or (isinstance(node, ast.Constant) and not node.value):
        return frozenset()
    if isinstance(node, ast.BoolOp):
        parts = [_events(each, table) for each in node.values]
        known = [each for each in parts if each is not None]
        if isinstance(node.op, ast.And):
            return frozenset.intersection(*known) if known else None
        return frozenset().union(*known) if len(known) == len(parts) else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.In, ast.Is)):
        side = node.comparators[0]
        named = side.elts if isinstance(side, (ast.List, ast.Tuple, ast.Set)) else [side]
        of_enum = [each for each in named if isinstance(each, ast.Attribute) and last_name(each.value) == "Event"]
        return frozenset(each.attr for each in of_enum) if len(of_enum) == len(named) else None
    return None
