"""Indices that a function counts on the host itself, for tensors of one device, which could have counted them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.sync.indexing import parts_of
from torchperf_lint.idioms.transfer.construction import counts_alike, counts_on, is_whole, made_of
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_LEAVES = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await, ast.Try)
_STEPS = VIEW_METHODS | frozenset("contiguous clone repeat tile flip roll broadcast_to long".split())
_SAME_EVERYWHERE = frozenset(f"torch.{name}" for name in "zeros ones full eye".split())
_PAIRS = frozenset({"torch.triu_indices", "torch.tril_indices"})


def counted_on_host(model: Model, node: cst.BaseExpression) -> cst.Call | None:
    """The factory at the root of `torch.arange(n).view(2, -1).t() + 1`, if any device makes the same integers."""
    if isinstance(node, cst.BinaryOperation):
        inner = counts_on(model, node)
        return None if inner is None else counted_on_host(model, inner)
    if isinstance(node, cst.Subscript):
        return counted_on_host(model, node.value) if all(map(is_whole, node.slice)) else None
    if not isinstance(node, cst.Call) or any(each.star == "**" for each in node.args):
        return None
    built = made_of(model, node)
    if built is not None:
        is_filled = built.ref in _SAME_EVERYWHERE and (model.value(node).dtype or "").startswith(("int", "bool"))
        is_same = is_filled or built.ref in _PAIRS or counts_alike(model, built)
        return node if is_same else None
    step = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    is_step = step in _STEPS or (step == "to" and len(node.args) == 1 and _is_int64(model, node.args[0]))
    if not is_step or not isinstance(node.func, cst.Attribute):
        return None
    return counted_on_host(model, node.func.value)


def _is_int64(model: Model, argument: cst.Arg) -> bool:
    return model.value(argument.value).kind is Kind.DTYPE and (model.value(argument.value).dtype or "") == "int64"


def counted_before(model: Model, function: FunctionInfo, index: str, owner: str) -> tuple[Edit, ...] | None:
    """The edit that counts `rows` where `owner` is, if the function uses `rows` for an index of that tensor alone.

    `rows, columns = torch.triu_indices(n, n)` counts two.
    """
    question = ("counted before", function, index, owner)
    return model.remember(question, lambda: _counted_before(model, function, index, owner))


def _counted_before(model: Model, function: FunctionInfo, index: str, owner: str) -> tuple[Edit, ...] | None:
    stores = [each for each in _uses(function, index) if not isinstance(each.ctx, ast.Load)]
    bound = surroundings.statement_around(function, stores[0]) if len(stores) == 1 else None
    target = bound.targets[0] if isinstance(bound, ast.Assign) and len(bound.targets) == 1 else None
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    if not isinstance(bound, ast.Assign) or model.may_be_rebound(owner):
        return None
    loads: list[ast.Name] = []
    for name in names:
        uses = _uses(function, name.id) if isinstance(name, ast.Name) else []
        if not isinstance(name, ast.Name) or name.id in function.parameter_names or model.may_be_rebound(name.id):
            return None
        read = [each for each in uses if isinstance(each.ctx, ast.Load)]
        if len(uses) != len(read) + 1 or not all(_indexes(model, function, each, owner) for each in read):
            return None
        loads += read
    if not _is_kept(model, function, bound, loads, owner):
        return None
    site = model.site_at(bound.value, bound)
    root = counted_on_host(model, site.node) if site is not None and isinstance(site.node, cst.BaseExpression) else None
    if site is None or root is None:
        return None
    value = model.value(site.node)
    if value.device is not Device.CPU or (value.dtype or "").startswith(("bool", "uint")):
        return None  # the true values of a mask would be counted there, and waited for
    return edits.add_argument(site.tree, root, f"device={owner}.device")


def _uses(function: FunctionInfo, name: str) -> list[ast.Name]:
    return [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]


def _indexes(model: Model, function: FunctionInfo, use: ast.Name, owner: str) -> bool:
    """Whether the name stands alone in the brackets of the tensor, or of a part of it."""
    above = function.parents[use]
    whole = function.parents[above] if isinstance(above, ast.Tuple) else above
    if not isinstance(whole, ast.Subscript) or use not in parts_of(whole):
        return False
    return _tensor_of(model, function, whole.value) == owner


def _tensor_of(model: Model, function: FunctionInfo, node: ast.expr) -> str | None:
    """The name of the tensor whose part or view an expression is."""
    while not isinstance(node, ast.Name):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(called, ast.Attribute) and called.attr in VIEW_METHODS:
            node = called.value
        else:
            return None
        if not model.value_in(function, node).is_tensor:
            return None
    return node.id if model.value_in(function, node).is_tensor else None


def _is_kept(model: Model, function: FunctionInfo, bound: ast.Assign, loads: list[ast.Name], owner: str) -> bool:
    """Whether the tensor is the same, and surely there, from the statement that counts to the last use."""
    place = model.place_of(bound)
    rest = place.block[place.position + 1 :]
    used = [number for number, each in enumerate(rest) if any(part in loads for part in subtree(each))]
    around = rest[: used[-1] + 1] if used else []
    if sum(part in loads for each in around for part in subtree(each)) != len(loads):
        return False
    first = around[used[0]]
    surely = [each for each in loads if each in subtree(first) and surroundings.is_always_evaluated(function, each)]
    if not isinstance(first, _SIMPLE) or not surely:
        return False  # where no index is taken, the tensor may be None
    if any(isinstance(part, _LEAVES) for each in around[: used[0]] for part in subtree(each)):
        return False
    last = around[-1]
    before = around[:-1] if isinstance(last, _SIMPLE) else around
    return not any(_may_replace(part, owner) for each in before for part in subtree(each))


def _may_replace(node: ast.AST, owner: str) -> bool:
    """`x = ...`, `del x`, `x.data = ...`, or a function or class of its own, whose `x` may be another one."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == owner and not isinstance(node.ctx, ast.Load)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return True
    return isinstance(node, ast.Name) and node.id == owner and not isinstance(node.ctx, ast.Load)
