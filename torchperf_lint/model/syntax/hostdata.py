"""Expressions that are host data by their form, whatever their names stand for: no values are needed."""

from __future__ import annotations

import ast

from torchperf_lint.knowledge.torch_api import ASKS_KIND, COMPARES_ON_HOST, DTYPES
from torchperf_lint.model.syntax.index import dotted

# Attributes that hardly anything but a tensor has, or that are host data on every object.
_ATTRIBUTES = frozenset("shape dtype ndim is_cuda is_leaf requires_grad device training __name__ __class__".split())
_METHODS = frozenset("size dim ndimension numel nelement data_ptr is_contiguous is_floating_point is_complex".split())
_FUNCTIONS = frozenset("len isinstance issubclass hasattr callable type id".split())


def is_host_data(node: ast.expr) -> bool:
    """Whether it is a literal, a size, a type or other host metadata, or is composed of such only."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.JoinedStr):
        return all(map(is_host_data, node.values))
    if isinstance(node, ast.FormattedValue):
        return is_host_data(node.value) and (node.format_spec is None or is_host_data(node.format_spec))
    if isinstance(node, ast.Attribute):
        return node.attr in _ATTRIBUTES or dotted(node) in DTYPES
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in _FUNCTIONS
        return isinstance(node.func, ast.Attribute) and (
            (node.func.attr in _METHODS and all(map(is_host_data, _given(node))))
            or _asks_torch(node.func.attr, dotted(node.func) or "")
        )
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return is_host_data(node.value)
    if isinstance(node, ast.UnaryOp):
        return is_host_data(node.operand)
    if isinstance(node, ast.BinOp):
        return is_host_data(node.left) and is_host_data(node.right)
    if isinstance(node, ast.Compare):
        return is_host_data(node.left) and all(map(is_host_data, node.comparators))
    if isinstance(node, ast.BoolOp):
        return all(map(is_host_data, node.values))
    if isinstance(node, ast.IfExp):
        return is_host_data(node.body) and is_host_data(node.orelse)
    return isinstance(node, (ast.Tuple, ast.List)) and all(map(is_host_data, node.elts))


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _asks_torch(name: str, path: str) -> bool:
    """`torch.jit.is_scripting()`, `torch.is_tensor(x)`."""
    return name.startswith(ASKS_KIND) and name not in COMPARES_ON_HOST and path.startswith("torch.")
