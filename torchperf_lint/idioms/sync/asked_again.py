"""`found = mask.any()`, then several tests of `found`: each of them waits, where one answer would do for all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "ask the tensor once"
_REDUCES = frozenset({"any", "all"})


def asked_once(model: Model, site: Site) -> Fix | None:
    """`found = bool(mask.any())`, if all that is done with `found` is to test it, and more than once."""
    node, function = site.node, model.function_of(site)
    if not isinstance(node, cst.Name) or not model.keeps_builtin("bool"):
        return None
    made = model.only_binding(function, node.value)
    statement = None if made is None else _binding(model, made)
    if made is None or statement is None or not _is_new(made) or not _is_only_tested(function, node.value):
        return None
    block = model.place_of(statement).block
    if not any(isinstance(each, ast.If) and _asks_first(each.test, node.value) for each in block):
        return None  # perhaps no test is reached
    bound = model.site_at(made, statement)
    if bound is None or not isinstance(bound.node, cst.BaseExpression) or bound.node.lpar:
        return None
    edit = edits.replace(bound.tree, bound.node, f"bool({edits.text_of(bound.tree, bound.node)})")
    return None if edit is None else Fix(_TITLE, Safety.SAFE, (edit,))


def is_asked_once(model: Model, site: Site) -> bool:
    """Whether the site is `bool(...)` of `found = bool(mask.any())`, the one answer for several tests."""
    made = model.ast_of(site.node)
    if not isinstance(made, ast.Call) or len(made.args) != 1 or model.value(site.node.func).ref != "builtins.bool":
        return False
    statement = _binding(model, made)
    target = None if statement is None else statement.targets[0]
    return (
        isinstance(target, ast.Name) and _is_new(made.args[0]) and _is_only_tested(model.function_of(site), target.id)
    )


def _is_only_tested(function: FunctionInfo, name: str) -> bool:
    """Whether all that is done with the name is to test it, and more than once."""
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    tests = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return len(tests) > 1 and all(_is_test(function, each) for each in tests)


def _binding(model: Model, made: ast.expr) -> ast.Assign | None:
    assigned = (each for each in model.statements if isinstance(each, ast.Assign) and len(each.targets) == 1)
    return next((each for each in assigned if each.value is made), None)


def _is_new(made: ast.expr) -> bool:
    """Whether the expression gives a new tensor, to which nobody else can write: a comparison, `x.any()`."""
    if isinstance(made, ast.Compare):
        return len(made.ops) == 1 and isinstance(made.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq))
    is_method = isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and not made.args
    return is_method and not made.keywords and made.func.attr in _REDUCES  # type: ignore[attr-defined]


def _is_test(function: FunctionInfo, node: ast.AST) -> bool:
    """Whether only the truth of the expression matters."""
    parent = function.parents[node]
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        node, parent = parent, function.parents[parent]
    return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node


def _asks_first(test: ast.expr, name: str) -> bool:
    while isinstance(test, (ast.BoolOp, ast.UnaryOp)):
        test = test.values[0] if isinstance(test, ast.BoolOp) else test.operand
    return isinstance(test, ast.Name) and test.id == name
