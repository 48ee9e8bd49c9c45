"""Escape analysis of one object: which calls receive it, and whether it is only read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.writes import gives_new, writes_in_place
from torchperf_lint.model.handles import last_name, names_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo
    from torchperf_lint.syntax import cst


def takers(model: Model, site: Site, keyword: str) -> list[CallRecord]:
    """The calls that receive the object made at the site as `keyword=`; empty if it has any other use."""
    made, function = model.ast_of(site.node), model.function_of(site)
    direct = [record for record in function.calls_made if _given(record.call, keyword) is made is not None]
    if direct:
        return direct
    name = model.name_given(site)
    named = [node for node in model.top.nodes if isinstance(node, ast.Name) and node.id == name]
    found = [record for record in model.all_calls if _given(record.call, keyword) in named]
    return found if len(found) == len(named) - 1 else []


def handed_only_to(model: Model, site: Site, keyword: str, refs: Collection[str], without: str) -> bool:
    """Whether only calls of these library objects receive the object made at the site, none with keyword `without`."""
    records = takers(model, site, keyword)
    called = [model.callee(record).ref for record in records]
    plain = not any(each.arg in (without, None) for record in records for each in record.call.keywords)
    return bool(records) and plain and all(ref in refs for ref in called)


def _given(call: ast.Call, keyword: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == keyword), None)


def reckons(model: Model, call: cst.Call) -> bool:
    """Whether the call returns something new computed from its arguments, and writes to nothing."""
    node = model.ast_of(call)
    return isinstance(node, ast.Call) and gives_new(model.value(call.func).ref or "", node)


def only_read(model: Model, site: Site, path: str) -> bool:
    """Whether the function around the site binds a name once, and neither writes its value nor passes it on.

    It may rebind it to another view of the same: `weights = weights.expand(3, -1)`.
    """
    function = model.function_of(site)
    again = [node for node in function.nodes if isinstance(node, ast.Assign) and _views_itself(node, path)]
    if not path.isidentifier() or function.bound_names.count(path) != 1 + len(again):
        return False
    if model.may_be_rebound(path) or writes_in_place(model, path, site):
        return False
    parents = function.parents
    loads = [
        node for node in parents if isinstance(node, ast.Name) and node.id == path and isinstance(node.ctx, ast.Load)
    ]
    return bool(loads) and all(_yields_new(model, function, parents, load) for load in loads)


VIEWS = frozenset(
    "view reshape unsqueeze squeeze expand expand_as broadcast_to expand_dims flatten permute swapaxes t "
    "transpose".split()
)
"""Methods, and functions of torch and NumPy, that return another view of a tensor or array."""


def _views_itself(statement: ast.Assign, name: str) -> bool:
    """`x = x.expand(3, -1)`, `x = torch.broadcast_to(x, shape)`, `x = x[:, None]`."""
    if [ast.unparse(target) for target in statement.targets] != [name]:
        return False
    node, depth = statement.value, 0
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and last_name(node.func) in VIEWS:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            is_function = isinstance(owner, ast.Name) and owner.id in ("torch", "np", "numpy")
            inner = node.args[0] if is_function and node.args else owner
        else:
            inner = node.value if isinstance(node, ast.Subscript) else None
        if inner is None:
            return False
        node, depth = inner, depth + 1
    return node.id == name and depth > 0


def _yields_new(model: Model, function: FunctionInfo, parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether the expression's value, or a view of it, is only used in operations that return something new."""
    parent = parents[node]
    if isinstance(parent, (ast.BinOp, ast.Compare)):
        return True
    if isinstance(parent, ast.Assign):
        return any(_views_itself(parent, name) for name in names_in(parent.targets[0]))
    if isinstance(parent, ast.Subscript):
        return parent.slice is node or (
            isinstance(parent.ctx, ast.Load) and _yields_new(model, function, parents, parent)
        )
    if isinstance(parent, ast.keyword):
        parent, node = parents[parent], parent
    if isinstance(parent, ast.Attribute):
        call = parents[parent]
        if not isinstance(call, ast.Call) or call.func is not parent:
            return parent.attr in ("shape", "dtype", "ndim")
        seen = parent.attr in VIEWS
        return (
            _yields_new(model, function, parents, call) if seen else parent.attr in ("sum", "mean", "matmul", "tolist")
        )
    if isinstance(parent, ast.Call) and node is not parent.func:
        ref = model.value_in(function, parent.func).ref or ""
        if ref.startswith(("torch.", "numpy.")) and ref.rpartition(".")[2] in VIEWS:
            return _yields_new(model, function, parents, parent)
        return gives_new(ref, parent)
    return False
