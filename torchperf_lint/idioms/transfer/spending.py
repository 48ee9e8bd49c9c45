"""Whether a tensor is only computed with: neither written, nor stored, nor passed to code that may do so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.writes import gives_new
from torchperf_lint.model.domain.values import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

VIEWS = frozenset("view reshape unsqueeze squeeze expand expand_as permute t transpose flatten view_as detach".split())
"""Methods that may return the tensor itself, in another shape."""

_READ = frozenset("shape dtype device ndim".split())
_RECKON = frozenset(
    "sum mean std var prod max min amax amin argmax argmin norm abs exp log sqrt square pow clamp clamp_min clamp_max "
    "add sub mul div matmul mm bmm dot softmax log_softmax sigmoid tanh repeat clone eq ne lt le gt ge any all size "
    "dim numel item tolist gather index_select masked_fill where new_zeros new_ones tril triu".split()
)
"""Methods that return something new."""


def is_spent(model: Model, function: FunctionInfo, parents: Mapping[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether the expression's value, or a view of it, is only used in an operation that returns something new."""
    parent = parents[node]
    if isinstance(parent, ast.keyword):
        node, parent = parent, parents[parent]
    if isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        return True
    if isinstance(parent, ast.AugAssign):
        return parent.value is node
    if isinstance(parent, ast.Tuple):
        around = parents[parent]
        return isinstance(around, ast.Subscript) and around.slice is parent
    if isinstance(parent, ast.Subscript):
        if parent.slice is node:
            return True
        return isinstance(parent.ctx, ast.Load) and is_spent(model, function, parents, parent)
    if isinstance(parent, ast.Attribute):
        call = parents[parent]
        if not isinstance(call, ast.Call) or call.func is not parent:
            return isinstance(parent.ctx, ast.Load) and parent.attr in _READ
        return parent.attr in _RECKON or (parent.attr in VIEWS and is_spent(model, function, parents, call))
    if isinstance(parent, ast.Call) and node is not parent.func:
        return _only_computes(model, function, parent)
    return False


def _only_computes(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    """Whether a call only computes with its arguments: a torch function that writes to nothing, or a module."""
    called = model.value_in(function, call.func)
    ref = called.ref or ""
    if called.kind is Kind.MODULE:
        return True
    if called.kind is Kind.LIBRARY and ref.startswith("torch."):
        return gives_new(ref, call)
    methods = isinstance(call.func, ast.Attribute) and call.func.attr in _RECKON
    return methods and isinstance(call.func, ast.Attribute) and _is_tensor(model, function, call.func.value)


def _is_tensor(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    return model.value_in(function, node).kind is Kind.TENSOR
