"""Which operators accept a host tensor beside device tensors, and the error of those that do not."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from torchperf_lint.verify.simulated.names import on_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch._ops import OpOverload


class HostOperands(enum.IntEnum):
    """The host tensors that an operator on the device accepts, or is given; more is greater."""

    NONE = enum.auto()
    ZERO_DIM = enum.auto()
    """Those without dimensions: an elementwise kernel takes their value as an argument."""
    ANY = enum.auto()


_ASSIGNMENT = {f"aten::{name}" for name in "index_put index_put_ _index_put_impl_".split()}
_INDEXING = _ASSIGNMENT | {"aten::index", "aten::_unsafe_index"}
_ANY = _INDEXING | {
    f"aten::{name}"
    for name in """
    copy_ _copy_from _to_copy set_ record_stream
    _pack_padded_sequence _ctc_loss _ctc_loss_backward _foreach_add _foreach_add_ _fused_adam_ _fused_adamw_
    _fused_sgd_ _fused_adagrad_
    """.split()
}
_ZERO_DIM = {
    f"aten::{name}"
    for name in """
    masked_fill masked_fill_ where lerp lerp_ fill_ index_fill index_fill_ clamp clamp_ floor_divide floor_divide_
    result_type
    """.split()
}
_ZERO_DIM_FAMILIES = ("aten::_foreach_", "aten::_fused_", "aten::_amp_")


def host_operands(operator: OpOverload[..., Any]) -> HostOperands:
    """The host tensors that the operator accepts beside device tensors."""
    name = operator._schema.name
    if name in _ANY or not name.startswith("aten::"):
        return HostOperands.ANY
    if torch.Tag.pointwise in operator.tags or name in _ZERO_DIM or name.startswith(_ZERO_DIM_FAMILIES):
        return HostOperands.ZERO_DIM
    return HostOperands.NONE


def check_indexed(operator: str, arguments: tuple[Any, ...]) -> None:
    """Raise what torch raises where a host tensor is indexed with tensors of the device."""
    if operator in _INDEXING and not on_device(arguments[0]):
        raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")


def check_assigned(operator: str, arguments: tuple[Any, ...]) -> None:
    """Raise what CUDA raises where a tensor of the device is written, by indices or a mask, into one of another dtype.

    The host's kernel takes a single number of any dtype for a mask. CUDA's does so only for a number on the host.
    """
    if operator not in _ASSIGNMENT:
        return
    target, _, value = arguments[:3]
    if on_device(target) and on_device(value) and target.dtype != value.dtype:
        into, given = (each.type().rpartition(".")[2].removesuffix("Tensor") for each in (target, value))
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, "
            f"got {into} for the destination and {given} for the source."
        )


def refuse_mixture(operator: str, values: tuple[Any, ...]) -> NoReturn:
    """Raise what CUDA raises for tensors on more than one device."""
    devices = list(dict.fromkeys(str(tensor.device) for tensor in _tensors(values)))
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{' and '.join(devices[:2])}! (operator {operator} on the simulated device)"
    )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
