"""What becomes of an object: to whom alone it is handed, and whether it is only read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.writes import writes_in_place

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.index import CallRecord, FunctionInfo


def takers(model: Model, site: Site, keyword: str) -> list[CallRecord]:
    """The calls that are given what is made at the site as `keyword=`; none if it is used in any other way."""
    made, statement = model.ast_of(site.node), model.statement_of(site.node)
    function = model.function_of(site)
    direct = [record for record in function.calls_made if _given(record.call, keyword) is made is not None]
    if direct:
        return direct
    is_named = isinstance(statement, ast.Assign) and statement.value is made and len(statement.targets) == 1
    target = statement.targets[0] if is_named and isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name) or model.index.bound_names(function).count(target.id) != 1:
        return []
    tree = model.index.module.node
    loads = [
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == target.id and node is not target
    ]
    records = [each for calls in model.index.calls.values() for each in calls]
    found = [record for record in records if _given(record.call, keyword) in loads]
    return found if len(found) == len(loads) else []


def handed_only_to(model: Model, site: Site, keyword: str, refs: Collection[str], without: str) -> bool:
    """Whether only calls of these library objects get what is made at the site, none with the keyword `without`."""
    records = takers(model, site, keyword)
    called = [model.world.frame_value(record.function, record.call.func).ref for record in records]
    plain = not any(each.arg in (without, None) for record in records for each in record.call.keywords)
    return bool(records) and plain and all(ref in refs for ref in called)


def _given(call: ast.Call, keyword: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == keyword), None)


def only_read(model: Model, site: Site, path: str) -> bool:
    """Whether the function around the site binds a name once, and neither writes what it holds nor gives it away."""
    function = model.function_of(site)
    if not path.isidentifier() or model.index.bound_names(function).count(path) != 1:
        return False
    if path in model.index.rebound_elsewhere or writes_in_place(model, path, site):
        return False
    parents = {child: node for node in ast.walk(function.node) for child in ast.iter_child_nodes(node)}
    loads = [
        node for node in parents if isinstance(node, ast.Name) and node.id == path and isinstance(node.ctx, ast.Load)
    ]
    return bool(loads) and all(_reckons(model, function, parents, load) for load in loads)


_KEEPERS = frozenset(
    "as_tensor asarray atleast_1d atleast_2d broadcast_to expand_dims flatten from_numpy permute ravel reshape squeeze "
    "swapaxes t transpose unsqueeze view_as_real".split()
)
"""Functions of torch and NumPy that may give what they are given, or a view of it."""

_VIEWS = ("view", "reshape", "unsqueeze", "expand", "permute", "t", "transpose")


def _reckons(model: Model, function: FunctionInfo, parents: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether what an expression holds, or a view of it, ends in an operation that gives something new."""
    parent = parents[node]
    if isinstance(parent, (ast.BinOp, ast.Compare)):
        return True
    if isinstance(parent, ast.Subscript):
        return parent.slice is node or (isinstance(parent.ctx, ast.Load) and _reckons(model, function, parents, parent))
    if isinstance(parent, ast.keyword):
        parent, node = parents[parent], parent
    if isinstance(parent, ast.Attribute):
        call = parents[parent]
        if not isinstance(call, ast.Call) or call.func is not parent:
            return parent.attr in ("shape", "dtype", "ndim")
        seen = parent.attr in _VIEWS
        return _reckons(model, function, parents, call) if seen else parent.attr in ("sum", "mean", "matmul", "tolist")
    if isinstance(parent, ast.Call) and node is not parent.func:
        ref = model.world.frame_value(function, parent.func).ref or ""
        return ref.startswith(("torch.", "numpy.")) and ref.rpartition(".")[2] not in _KEEPERS
    return False
