"""The devices of a wrapper that copies a model to several."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.handles import given_for

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst


def one_by_default(model: Model, site: Site, devices: cst.BaseExpression | None) -> Because | None:
    """The default of a parameter that lists one device, where no call that is found gives another list."""
    node = None if devices is None else model.ast_of(devices)
    if not isinstance(node, ast.Name):
        return None
    name, function = node.id, model.function_of(site)
    default = function.defaults.get(name)
    if not isinstance(default, (ast.List, ast.Tuple)) or len(default.elts) != 1:
        return None
    if isinstance(default.elts[0], ast.Starred) or function.bound_names.count(name) != 1 or _changes(function, name):
        return None
    if any(given_for(function, each.call, name) is not default for each in model.possible_callers(function)):
        return None
    text = f"`{name}` is one device by default, for which nothing is copied or gathered"
    return Because(default.lineno, text)


def _changes(function: FunctionInfo, name: str) -> bool:
    """Whether the function may change the list: it calls a method of it, or stores an item."""
    return any(
        isinstance(each, (ast.Attribute, ast.Subscript))
        and isinstance(each.value, ast.Name)
        and each.value.id == name
        and (isinstance(each, ast.Attribute) or not isinstance(each.ctx, ast.Load))
        for each in function.nodes
    )
