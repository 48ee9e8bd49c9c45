"""Whether a tensor is one that `forward` is given, or a part of one: then its callers may have it on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.torch_api import METADATA_ATTRIBUTES
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_in

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst


def is_given_to_forward(model: Model, node: cst.BaseExpression) -> bool:
    """Whether an expression in a module's `forward` is computed from its arguments alone, without the module."""
    function, meaning = model.function_of(model.site(node)), model.ast_of(node)
    return function.name == "forward" and meaning is not None and _is_given(model, function, meaning, 0)


def _is_given(model: Model, function: FunctionInfo, node: ast.expr, depth: int) -> bool:
    if isinstance(node, ast.Name):
        if node.id == function.self_name or depth > bounds.MOST_TO_SHOWN:
            return False
        if model.value_in(function, node).kind is Kind.LIBRARY:
            return True
        bound = [*model.all_bindings(function, node.id), *_taken_apart(function, node.id)]
        if not bound and node.id not in function.parameter_names:
            return False
        return all(_is_given(model, function, each, depth + 1) for each in bound)
    if isinstance(node, ast.IfExp):
        return all(_is_given(model, function, each, depth) for each in (node.body, node.orelse))
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return all(_is_given(model, function, each, depth) for each in (node.elt, node.generators[0].iter))
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        is_metadata = isinstance(node, ast.Attribute) and node.attr in METADATA_ATTRIBUTES
        return is_metadata or _is_given(model, function, node.value, depth)
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_is_given(model, function, each, depth) for each in node.elts)
    if isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp)):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return all(_is_given(model, function, each, depth) for each in parts)
    if isinstance(node, ast.Call):
        return _is_call_on_given(model, function, node, depth)
    return False


def _taken_apart(function: FunctionInfo, name: str) -> list[ast.expr]:
    """What loops, comprehensions and displays of targets take a name from: `boxes` of `first, second = boxes`."""
    found: list[ast.expr] = []
    for node in function.nodes:
        if isinstance(node, (ast.For, ast.comprehension)) and name in names_in(node.target):
            found.append(node.iter)
        elif isinstance(node, ast.Assign):
            apart = [each for each in node.targets if isinstance(each, (ast.Tuple, ast.List))]
            if any(name in names_in(each) for each in apart):
                found.append(node.value)
    return found


def _is_call_on_given(model: Model, function: FunctionInfo, call: ast.Call, depth: int) -> bool:
    called = model.value_in(function, call.func)
    given = [*call.args, *(each.value for each in call.keywords)]
    if called.kind is Kind.LIBRARY:
        return bool(given) and all(_is_given(model, function, each, depth) for each in given)
    is_method = called.kind is Kind.METHOD and called.function is None and isinstance(call.func, ast.Attribute)
    return is_method and _is_given(model, function, call.func.value, depth)  # type: ignore[attr-defined]
