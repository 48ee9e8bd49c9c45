"""Hooks that run at the events that their class selects: Composer's algorithms, by what `match` returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.callgraph import constructors
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.knowledge.hooks import HookTable
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo


def are_rare(inference: ValueQuestions, hook: FunctionInfo, cls: ClassInfo, table: HookTable) -> bool:
    """Whether the class, and those below it that run its hook, are shown to select no event of every step."""
    if not table.selected_by:
        return False
    running = [each for each in constructors.heirs_of(inference, cls) if _runs(inference, each, hook)]
    return all(_selects_rare(inference.method(each, table.selected_by), table) for each in (cls, *running))


def _runs(inference: ValueQuestions, heir: ClassInfo, hook: FunctionInfo) -> bool:
    """Whether a class below inherits the hook, or has one that may call it."""
    method = inference.method(heir, hook.name)
    return method is hook or (
        method is not None and any(last_name(each.call.func) == hook.name for each in method.calls_made)
    )


def _selects_rare(selects: FunctionInfo | None, table: HookTable) -> bool:
    if selects is None:
        return False
    names = selects.parameter_names[1:2]  # behind `self`
    if not names or selects.bound_names.count(names[0]) != 1:
        return False
    chosen = [_events(each.value, names[0]) for each in selects.statements if isinstance(each, ast.Return)]
    return bool(chosen) and all(each is not None and each <= table.rare_events for each in chosen)


def _events(node: ast.expr | None, event: str) -> frozenset[str] | None:
    """The events for which a condition on the parameter `event` may hold; None where it may hold for others."""
    if node is None or (isinstance(node, ast.Constant) and not node.value):
        return frozenset()
    if isinstance(node, ast.BoolOp):
        parts = [_events(each, event) for each in node.values]
        known = [each for each in parts if each is not None]
        if isinstance(node.op, ast.And):
            return frozenset.intersection(*known) if known else None
        return frozenset().union(*known) if len(known) == len(parts) else None
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = node.left, node.comparators[0]
    if isinstance(node.ops[0], (ast.Eq, ast.Is)):
        named = [right if _is_name(left, event) else left]
        is_asked = _is_name(left, event) or _is_name(right, event)
    else:
        named = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
        is_asked = isinstance(node.ops[0], ast.In) and _is_name(left, event)
    of_enum = [each for each in named if isinstance(each, ast.Attribute) and last_name(each.value) == "Event"]
    return frozenset(each.attr for each in of_enum) if is_asked and len(of_enum) == len(named) else None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
