"""Parameters of a constructor that it uses as sizes, `nn.Linear(width, width)`: numbers, whatever a call gives."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import dotted

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo

_FACTORIES = frozenset("zeros ones empty rand randn".split())
"""Functions of torch whose positional arguments, if there are several, are the sizes of the result."""

_WIDTHS = frozenset("Linear Embedding Conv1d Conv2d Conv3d LSTM GRU RNN GRUCell LSTMCell".split())
"""Modules whose first two positional arguments are widths."""


def used_as_sizes(function: FunctionInfo) -> frozenset[str]:
    """The parameters of a constructor that are sizes by their use; none of another function, or that are rebound."""
    if function.name != "__init__" or function.cls is None:
        return frozenset()
    return function.note(("used as sizes", function), lambda: _find(function))


def _find(function: FunctionInfo) -> frozenset[str]:
    found = {
        each.id
        for node in function.nodes
        if isinstance(node, ast.Call)
        for each in _sizes(node)
        if isinstance(each, ast.Name)
    }
    bound = function.index.bound_names(function)
    return frozenset(name for name in found.intersection(function.parameter_names) if bound.count(name) == 1)


def _sizes(call: ast.Call) -> list[ast.expr]:
    owner, _, name = (dotted(call.func) or "").rpartition(".")
    if name in _FACTORIES and owner in ("torch", "th") and len(call.args) > 1:
        return call.args
    return call.args[:2] if name in _WIDTHS and owner in ("nn", "torch.nn") else []
