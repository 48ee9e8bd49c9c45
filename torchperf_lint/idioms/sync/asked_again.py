"""`found = mask.any()`, then several tests of `found`: each of them waits, where one answer would do for all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "ask the tensor once"
_JUMPS = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_REDUCES = frozenset({"any", "all"})


def asked_once(model: Model, site: Site) -> Fix | None:
    """`found = bool(mask.any())`, if all that is done with `found` is to test it, and not for the first time."""
    node, function = site.node, model.function_of(site)
    if not isinstance(node, cst.Name) or not model.keeps_builtin("bool"):
        return None
    made = model.only_binding(function, node.value)
    statement = None if made is None else _binding(model, made)
    if made is None or statement is None or not _is_new(made):
        return None
    tests = _tests(function, node.value)
    if tests is None or min(tests, key=lambda test: (test.lineno, test.col_offset)) is model.ast_of(node):
        return None  # the first one has to ask
    place = model.place_of(statement)
    behind = place.block[place.position + 1 :]
    at = next(
        (i for i, each in enumerate(behind) if isinstance(each, ast.If) and _asks_first(each.test, node.value)), None
    )
    if at is None or any(isinstance(each, _JUMPS) for between in behind[:at] for each in subtree(between)):
        return None  # perhaps no test is reached
    bound = model.site_at(made, statement)
    if bound is None or not isinstance(bound.node, cst.BaseExpression) or bound.node.lpar:
        return None
    edit = edits.replace(bound.tree, bound.node, f"bool({edits.text_of(bound.tree, bound.node)})")
    return None if edit is None else Fix(_TITLE, Safety.SAFE, (edit,))


def _tests(function: FunctionInfo, name: str) -> list[ast.Name] | None:
    """The tests of the name, if nothing else is done with it."""
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    tests = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return tests if tests and all(_is_test(function, each) for each in tests) else None


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
