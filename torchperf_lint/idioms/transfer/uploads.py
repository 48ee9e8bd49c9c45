"""What keeps a tensor from being packed on the host first, and copied without a wait then."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Value


def makes_on_device(model: Model) -> bool:
    """Whether the file sets a default device, or enters one: tensors that are made there cannot be pinned."""
    if model.code.speaks_of("set_default_d", "set_default_tensor_type"):
        return True
    entered = (each for each in model.statements if isinstance(each, (ast.With, ast.AsyncWith)))
    opened = (item.context_expr for each in entered for item in each.items)
    return any(isinstance(each, ast.Call) and last_name(each.func) == "device" for each in opened)


def holds_device_tensors(value: Value) -> bool:
    """Whether a list holds tensors of the device: each of them is read, however the list is packed."""
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    return value.holds_tensors
