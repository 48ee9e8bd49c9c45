"""Fields: what `x.name` is where `x` is a named result of torch, a model's output or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import UNKNOWN, Kind, derived

if TYPE_CHECKING:
    from torchperf_lint.model.domain.values import Value


def as_data(value: Value) -> Value:
    """The value where only data can stand: there `out.logits` is a field of the output, and not one of its methods."""
    owner = value.element
    if value.kind is not Kind.METHOD or value.function is not None or owner is None:
        return value
    if owner.kind is Kind.METHOD:
        inner = as_data(owner)
        return value if inner is owner else inner
    if owner.kind is Kind.PYTREE:
        return derived(owner)._replace(ref=None)
    return owner._replace(ref=None) if owner.kind is Kind.UNKNOWN and owner.device.on_accelerator else value


def named(base: Value, name: str) -> Value | None:
    """`x.max(1).values`: the field of a tuple that torch's functions return; None if it is no such field."""
    if base.ref != "tuple" or name not in torch_api.RESULT_FIELDS:
        return None
    field = base.element or UNKNOWN
    return field._replace(dtype="int64") if field.kind is Kind.TENSOR and name in torch_api.WHOLE_FIELDS else field
