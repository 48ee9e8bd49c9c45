"""Truth values of the host as indices: they are counted there, and their places need no wait to get to the device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.torch_api import HOST_DATA_FACTORIES
from torchperf_lint.model.domain.values import Device

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

_WAITING = "<2.7"
"""Releases of torch that are known to bring the places of a mask on the host over by a copy that waits."""

_ASKS = frozenset(f"builtins.{name}" for name in ("bool", "any", "all", "isinstance", "hasattr", "callable"))
_PACKS = HOST_DATA_FACTORIES | {"torch.from_numpy"}
_JOINS = (ast.BitAnd, ast.BitOr, ast.BitXor)


def is_host_mask(value: Value) -> bool:
    """Whether a value is a tensor of truth values on the host, and not a single one."""
    is_bool = value.is_tensor and value.dtype == "bool" and value.device is Device.CPU
    return is_bool and (value.vector is True or value.scalar is False)


def waits_for_masks(model: Model) -> bool:
    """Whether every release of torch that may run waits for the places of a mask on the host."""
    return model.target.torch_is(_WAITING) is True


def is_made_of_truths(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a tensor is packed from truth values, such as comparisons of whatever it is, or joins such tensors."""
    known: dict[str, bool] = {}

    def is_truth(node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            if node.id not in known:
                known[node.id] = False  # until it is known: a name may be made of itself
                made = model.only_binding(function, node.id)
                known[node.id] = made is not None and is_truth(made)
            return known[node.id]
        if isinstance(node, ast.Call):
            ref = model.value_in(function, node.func).ref
            return ref in _ASKS or (ref in _PACKS and are_truths(node.args[:1]))
        if isinstance(node, (ast.List, ast.Tuple)):
            return are_truths(node.elts)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return is_truth(node.elt)
        if isinstance(node, ast.BoolOp):
            return are_truths(node.values)
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, _JOINS) and are_truths([node.left, node.right])
        if isinstance(node, ast.UnaryOp):
            return isinstance(node.op, ast.Not) or (isinstance(node.op, ast.Invert) and is_truth(node.operand))
        return isinstance(node, ast.Compare) or (isinstance(node, ast.Constant) and isinstance(node.value, bool))

    def are_truths(nodes: list[ast.expr]) -> bool:
        return bool(nodes) and all(map(is_truth, nodes))

    return is_truth(node)
