"""Whether each element of a tensor has memory of its own, as a write through a slice needs, and who writes there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms import writes
from torchperf_lint.idioms.aliases import MAY_BE_ITSELF, memory_of
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

NEW = (torch_api.FACTORIES - {"torch.as_tensor", "torch.asarray", "torch.frombuffer", "torch.empty_strided"}) | (
    torch_api.LIKE_FACTORIES | {"torch.stack", "torch.cat", "torch.clone"}
)
"""Functions whose result is in memory of its own."""
_NEW_METHODS = frozenset("clone contiguous new_zeros new_ones new_full new_empty new_tensor".split())
_KEEPING_STEPS = (torch_api.VIEW_METHODS - {"expand"}) | frozenset(torch_api.DTYPE_METHODS) | {"to", "cuda", "detach"}
"""Methods that give the tensor itself, a part of it without repetition, or a copy."""
_REPLACES_MEMORY = frozenset({"set_", "as_strided_", "data"})


def has_own_elements(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether no two elements of the tensor are shown to share memory, as after `expand` or `unfold`.

    False as well for a tensor that is not seen to be made: a parameter, an attribute, a model's output.
    """
    return _has_own(model, function, node, frozenset())


def _has_own(model: Model, function: FunctionInfo, node: ast.expr, seen: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        bound = [] if node.id in seen else model.all_bindings(function, node.id, grows=True)
        is_replaced = any(
            isinstance(each, ast.Attribute)
            and each.attr in _REPLACES_MEMORY
            and isinstance(each.value, ast.Name)
            and each.value.id == node.id
            and (each.attr != "data" or isinstance(each.ctx, ast.Store))
            for each in function.nodes
        )
        known = bool(bound) and not is_replaced
        return known and all(_has_own(model, function, each, seen | {node.id}) for each in bound)
    if isinstance(node, ast.Subscript):
        return model.value_in(function, node.value).is_tensor and _has_own(model, function, node.value, seen)
    if isinstance(node, ast.BinOp):
        return any(model.value_in(function, each).is_tensor for each in (node.left, node.right))
    if not isinstance(node, ast.Call) or any(keyword.arg in (None, "out") for keyword in node.keywords):
        return False
    called, name = model.value_in(function, node.func), last_name(node.func) or ""
    if called.kind is Kind.LIBRARY:
        return (called.ref or "") in NEW
    if not isinstance(node.func, ast.Attribute) or called.function is not None:
        return False
    owner = node.func.value
    if not model.value_in(function, owner).holds_tensors:
        return False
    return name in _NEW_METHODS or (name in _KEEPING_STEPS and _has_own(model, function, owner, seen))


def is_written_through(model: Model, function: FunctionInfo, copy: ast.expr) -> bool:
    """Whether the function writes to what a subscript gives, or to its tensor while the result has a name.

    The writes seen are those in place and those of library functions.
    """
    assert isinstance(copy, ast.Subscript)
    parent = function.parents[copy]
    computed = isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare))
    is_kept = parent.attr in MAY_BE_ITSELF if isinstance(parent, ast.Attribute) else not computed
    base = {each.id for each in memory_of(model, function, copy.value, on_device=True) if isinstance(each, ast.Name)}
    for written, _ in (*writes.written_in(function), *writes.handed_to_writers(model, function)):
        for shared in memory_of(model, function, written, on_device=True):
            if shared is copy or (is_kept and isinstance(shared, ast.Name) and shared.id in base):
                return True
    return False
