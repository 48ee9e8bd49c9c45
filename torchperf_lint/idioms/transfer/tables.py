"""NumPy tables that are made once and never changed: attributes that only `__init__` sets, constants of a module."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.arguments import passed
from torchperf_lint.idioms.caches import runs_in_every_step
from torchperf_lint.knowledge.conventions import BOUNDS_OF_SPACES
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name, names_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo

_WRITERS = frozenset("fill sort partition put resize itemset setfield byteswap".split())


def is_table(model: Model, node: ast.expr, function: FunctionInfo, calls: int = 0, *, is_array: bool = False) -> bool:
    """Whether an expression of the function is such a table, or a parameter that receives one in every step.

    `is_array` says that its use shows that it is an array, so that what a module got for it need not show it.
    """
    if isinstance(node, ast.BinOp):
        parts = [part for part in (node.left, node.right) if not isinstance(part, ast.Constant)]
        return bool(parts) and all(is_table(model, part, function, calls, is_array=is_array) for part in parts)
    if isinstance(node, ast.Attribute):
        is_bound = is_array and node.attr in BOUNDS_OF_SPACES and (last_name(node.value) or "").endswith("space")
        owner, _, name = (dotted(node.value if is_bound else node) or "").rpartition(".")
        is_own = owner != "" and owner == function.self_name
        return is_own and function.cls is not None and _is_attribute_table(model, function.cls, name, is_array)
    if not isinstance(node, ast.Name):
        return False
    if _is_bound(function, node.id):
        made = _made_of_others(model, function, node)
        return made is not None and is_table(model, made, function, calls, is_array=is_array)
    if node.id in function.parameter_names:
        return calls < bounds.MOST_CALLS_TO_TABLE and any(
            given is not None and is_table(model, given, record.function, calls + 1, is_array=is_array)
            for record in model.callers(function)
            if runs_in_every_step(model, record)
            for given in [passed(record.call, function, node.id)]
        )
    return _is_constant(model, node.id, function)


def _made_of_others(model: Model, function: FunctionInfo, node: ast.Name) -> ast.expr | None:
    """The arithmetic that the name stands for, if all other values that it gets are made of its own."""
    name = node.id
    made = [value for value in model.all_bindings(function, name) if name not in names_in(value)]
    is_made = len(made) == 1 and isinstance(made[0], ast.BinOp) and made[0].lineno < node.lineno
    return made[0] if is_made and not _is_written(function.node, name) else None


def _is_constant(model: Model, name: str, function: FunctionInfo) -> bool:
    """Whether the name is an array that the module binds once and nothing in the file writes to."""
    there = model.home(function)
    outer = function.outer
    while outer is not None and outer is not there.top:
        if name in outer.bound_names:
            return False
        outer = outer.outer
    if not there.bound_once(there.top, name):
        return False
    return there.value_at_top(name).kind is Kind.NUMPY and not _is_written(there.top.node, name)


def _is_attribute_table(model: Model, cls: ClassInfo, name: str, is_array: bool) -> bool:
    """Whether only `__init__` or the class's body sets the attribute, to an array, and no method writes to it."""
    wanted = (Kind.NUMPY, Kind.UNKNOWN) if is_array and model.makes_modules(cls) else (Kind.NUMPY,)
    owners = model.lineage(cls)
    stores = [store for owner in owners for store in owner.attributes.get(name, ())]
    for store in stores:
        is_early = store.function.name == "__init__" or isinstance(store.target, ast.Name)
        if not is_early or model.value_in(store.function, store.target).kind not in wanted:
            return False
    methods = [method for owner in owners for method in owner.methods.values()]
    written = any(_is_written(method.node, f"{method.self_name}.{name}") for method in methods)
    return bool(stores) and not written and _lasts(model, cls)


def _lasts(model: Model, cls: ClassInfo) -> bool:
    """Whether the class is a module, or its objects are provably made, and neither in every step nor by itself."""
    if model.makes_modules(cls):
        return True
    made = model.method(cls, "__init__")
    calls = [] if made is None else model.callers(made)
    return bool(calls) and not any(call.function.cls is cls or runs_in_every_step(model, call) for call in calls)


def _is_bound(function: FunctionInfo, name: str) -> bool:
    """Whether a statement of the function rebinds the name."""
    nodes = function.nodes
    return any(isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) for node in nodes)


def _is_written(tree: ast.AST, path: str) -> bool:
    """Whether anything in the tree writes to the array: `x[i] = v`, `x += v`, `x.sort()`, `out=x`."""
    for node in subtree(tree):
        written: ast.expr | None = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            written = node.value
        elif isinstance(node, ast.AugAssign):
            written = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITERS:
            written = node.func.value
        elif isinstance(node, ast.keyword) and node.arg == "out":
            written = node.value
        if written is not None and dotted(written) == path:
            return True
    return False
