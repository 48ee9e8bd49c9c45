"""`n = lengths.max()`, then several tensors of that size: each of them reads it, where one read would do for all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "read the size once"
_ASSUMES = "the size is an integer, and no traced graph has to serve other sizes"
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_PERHAPS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIZED = frozenset(
    "zeros ones empty rand randn arange new_zeros new_ones new_empty view reshape expand repeat range".split()
)
"""What takes its numbers for sizes and bounds alone, and treats those of a tensor like those of Python."""


def sized_once(model: Model, site: Site, name: str) -> Fix | None:
    """`n = int(lengths.max())`, if `n` is a size wherever it is used, and the site is not the first to use it."""
    function = model.function_of(site)
    made = model.only_binding(function, name) if name.isidentifier() and model.keeps_builtin("int") else None
    statement = model.statement_of(site.node)
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    loads = sorted((each for each in uses if isinstance(each.ctx, ast.Load)), key=lambda each: each.lineno)
    if not isinstance(made, ast.Call) or len(loads) < 2 or len(uses) != len(loads) + 1:
        return None
    bound, value = function.parents[made], model.value_in(function, made)
    if not isinstance(bound, ast.Assign) or not value.is_tensor or value.scalar is not True:
        return None
    if last_name(made.func) not in FULL_REDUCTIONS or any(each.arg == "out" for each in made.keywords):
        return None  # a view may be written to before it is read
    if not all(is_size(model, function, each) for each in loads) or any(
        each is loads[0] for each in subtree(statement)
    ):
        return None
    place = model.place_of(bound)
    if not _is_used_in(place.block[place.position + 1 :], name):
        return None
    at = model.site_at(made, bound)
    if at is None or not isinstance(at.node, cst.BaseExpression) or at.node.lpar:
        return None
    edit = edits.replace(at.tree, at.node, f"int({edits.text_of(at.tree, at.node)})")
    is_plain = (value.dtype or "").startswith("int") and not model.may_be_traced
    grade = Safety.SAFE if is_plain and not may_be_scripted(model, function) else Safety.UNSAFE
    return None if edit is None else Fix(_TITLE, grade, (edit,), _ASSUMES)


def is_size(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the expression is a size, or the bound of a slice."""
    parent = function.parents[node]
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, (ast.Tuple, ast.List)):
        node, parent = parent, function.parents[parent]
    if not isinstance(parent, ast.Call) or node not in parent.args or last_name(parent.func) not in _SIZED:
        return False
    called = model.value_in(function, parent.func)
    is_function = called.kind is Kind.LIBRARY and (called.ref or "").startswith(("torch.", "builtins.range"))
    of_tensor = called.kind is Kind.METHOD and called.element is not None and called.element.holds_tensors
    return is_function or (of_tensor and called.function is None)


def _is_used_in(block: list[ast.stmt], name: str) -> bool:
    """Whether the first statement that names it surely uses it, and nothing before can leave the block."""
    for statement in block:
        nodes = subtree(statement)
        if any(isinstance(each, ast.Name) and each.id == name for each in nodes):
            perhaps = [part for each in subtree(statement) if isinstance(each, _PERHAPS) for part in subtree(each)]
            named = any(isinstance(each, ast.Name) and each.id == name for each in perhaps)
            return isinstance(statement, _SIMPLE) and not named
        if not isinstance(statement, _SIMPLE) or isinstance(statement, ast.Return):
            return False
    return False
