"""TorchScript: whether it may compile a function, in a project that makes TorchScript of some."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.tensor_methods import TENSOR_METHODS
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_REFUSED = (
    *(ast.Try, ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.Import, ast.ImportFrom, ast.ClassDef),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Set, ast.SetComp, ast.NamedExpr, ast.Global, ast.Nonlocal, ast.Match),
)
"""What TorchScript refuses in any place of a function, also where it is never run."""


def is_perhaps_scripted(model: Model, site: Site) -> bool:
    """Whether the project makes TorchScript, and could do so of the function around the site."""
    return may_be_scripted(model, model.function_of(site))


def may_be_scripted(model: Model, function: FunctionInfo) -> bool:
    """Whether the project makes TorchScript, and could do so of this function."""
    return model.may_be_scripted and not model.remember(
        ("not scripted", function), lambda: _is_refused(model, function)
    )


def _is_refused(model: Model, function: FunctionInfo) -> bool:
    """Whether the function is none that TorchScript compiles, by its form alone."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.args.vararg is not None or node.args.kwarg is not None:
        return True
    inside = [each for statement in node.body for each in subtree(statement)]
    if any(map(_is_refused_form, inside)):
        return True
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(node.body) > 1
    header = map(model.source.line, range(node.lineno, node.body[1 if is_text else 0].lineno + 1))
    return not any("# type:" in line for line in header) and _is_no_tensor(function, node, inside)


def _is_refused_form(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension):
        return bool(node.ifs)
    if isinstance(node, ast.FormattedValue):
        return node.format_spec is not None or node.conversion != -1
    if isinstance(node, ast.For):
        return bool(node.orelse)
    return isinstance(node, _REFUSED) or (isinstance(node, ast.keyword) and node.arg is None)


def _is_no_tensor(function: FunctionInfo, node: ast.FunctionDef, inside: list[ast.AST]) -> bool:
    """Whether a parameter without annotation, for TorchScript a tensor, or an item of one, is used as none.

    It has keys (`target["boxes"]`) or a method that tensors lack (`optimizer.step()`). TorchScript leaves out what
    stands behind `not torch.jit.is_scripting()`.
    """
    if any(isinstance(each, ast.Attribute) and each.attr == "is_scripting" for each in inside):
        return False
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    named = {each.arg for each in given if each.annotation is None and each.arg != function.self_name}
    tensors = {name for name in named - set(function.defaults) if function.bound_names.count(name) == 1}
    for each in inside:
        if isinstance(each, (ast.For, ast.comprehension)) and isinstance(each.iter, ast.Name):
            tensors |= {each.target.id} if each.iter.id in tensors and isinstance(each.target, ast.Name) else set()
    return any(isinstance(part := _used_otherwise(each), ast.Name) and part.id in tensors for each in inside)


def _used_otherwise(node: ast.AST) -> ast.expr | None:
    """`x` of `x["key"]` and of `x.step()`, which no tensor has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return None if node.func.attr in TENSOR_METHODS else node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.value
    return None
