"""Whether a tensor is one that `forward` is given, or a part of one: then its callers may have it on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.torch_api import METADATA_ATTRIBUTES
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_in

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst


def is_given_to_forward(model: Model, node: cst.BaseExpression) -> bool:
    """Whether an expression in a module's `forward` is computed from its arguments alone, without the module."""
    function, meaning = model.function_of(model.site(node)), model.ast_of(node)
    return function.name == "forward" and meaning is not None and _is_given(model, function, meaning, set())


def _is_given(model: Model, function: FunctionInfo, node: ast.expr, asked: set[str]) -> bool:
    """The same for a part; of the names that are `asked` already, none was found to be anything else."""
    if isinstance(node, ast.Name):
        if node.id in asked:
            return True
        asked.add(node.id)
        if node.id == function.self_name:
            return False
        if model.value_in(function, node).kind is Kind.LIBRARY:
            return True
        bound = [*model.all_bindings(function, node.id), *_taken_apart(function, node.id)]
        if not bound and node.id not in function.parameter_names:
            return False
        return all(_is_given(model, function, each, asked) for each in bound)
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        is_metadata = isinstance(node, ast.Attribute) and node.attr in METADATA_ATTRIBUTES
        return is_metadata or _is_given(model, function, node.value, asked)
    if isinstance(node, ast.Call):
        parts = _parts_of_call(model, function, node)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        parts = [node.elt, node.generators[0].iter]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, (ast.List, ast.Tuple, ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp)):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    else:
        return False
    is_made_here = isinstance(node, ast.Call) and not parts
    return not is_made_here and all(_is_given(model, function, each, asked) for each in parts)


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


def _parts_of_call(model: Model, function: FunctionInfo, call: ast.Call) -> list[ast.expr]:
    """What a function of a library, or a method of a library's object, computes with; nothing for other calls."""
    called = model.value_in(function, call.func)
    given = [*call.args, *(each.value for each in call.keywords)]
    if called.kind is Kind.LIBRARY:
        return given
    is_method = called.kind is Kind.METHOD and called.function is None and isinstance(call.func, ast.Attribute)
    return [call.func.value, *given] if is_method else []  # type: ignore[attr-defined]
