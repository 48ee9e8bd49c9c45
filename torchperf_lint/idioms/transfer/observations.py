"""Observations: what an environment gives, which lies on the host where the environment takes actions from there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Unproven
from torchperf_lint.knowledge import environments
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_TO_HOST = ("numpy", "tolist", "item")


def of_host(model: Model, site: Site, data: cst.BaseExpression) -> Because | None:
    """Evidence that the data is an observation that an environment made on the host; None without evidence."""
    function, node = model.function_of(site), model.ast_of(data)
    if not isinstance(node, ast.Name) or node.id in function.parameter_names:
        return None
    stores = [each for each in function.nodes if isinstance(each, ast.Name) and _stores(each, node.id)]
    bound = _bound(function, node.id)
    if not bound or len(bound) != len(stores):
        return None
    stepped: list[ast.Call] = []
    for value in bound:
        calls = _calls(value, node.id)
        if calls is None:
            return None
        stepped += calls
    taking = [each for each in stepped if _method(each) == environments.STEPS_IT]
    if not taking or len({dotted(each.func.value) for each in stepped if isinstance(each.func, ast.Attribute)}) != 1:
        return None
    if all(each in taking for each in stepped) and not any(_is_environment(each) for each in taking):
        return None
    if not all(each.args and _is_of_host(model, function, each.args[0]) for each in taking):
        return None
    text = f"`{ast.unparse(taking[0].func)}` takes data of the host, so what it observes is there, too"
    return Unproven(taking[0].lineno, text)


def _stores(node: ast.Name, name: str) -> bool:
    return node.id == name and isinstance(node.ctx, ast.Store)


def _bound(function: FunctionInfo, name: str) -> list[ast.expr]:
    """The expressions that the function binds the name to, alone or as the first of several results."""
    found = []
    for statement in function.statements:
        for target in statement.targets if isinstance(statement, ast.Assign) else ():
            first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else target
            if isinstance(first, ast.Name) and first.id == name:
                found.append(statement.value)  # type: ignore[attr-defined]
    return found


def _calls(node: ast.expr, name: str) -> list[ast.Call] | None:
    """The calls of an environment that the expression gives; the name itself gives none. None for anything else."""
    if isinstance(node, ast.IfExp):
        body, other = _calls(node.body, name), _calls(node.orelse, name)
        return None if body is None or other is None else [*body, *other]
    if isinstance(node, ast.Name) and node.id == name:
        return []
    is_of_environment = isinstance(node, ast.Call) and _method(node) in (environments.STEPS_IT, environments.STARTS_IT)
    return [node] if is_of_environment else None  # type: ignore[list-item]


def _is_environment(call: ast.Call) -> bool:
    """Whether the receiver is named as an environment; what is stepped and never reset may be a solver."""
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return environments.NAMES.search((owner or "").lower()) is not None


def _method(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _is_of_host(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the expression is an array, a list or a number that a tensor was read into."""
    if model.value_in(function, node).kind in (Kind.NUMPY, Kind.NUMBER):
        return True
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        bound = model.bindings(function, node.id)
        return bool(bound) and all(
            not isinstance(each, ast.Name) and _is_of_host(model, function, each) for each in bound
        )
    return isinstance(node, ast.Call) and _method(node) in _TO_HOST
