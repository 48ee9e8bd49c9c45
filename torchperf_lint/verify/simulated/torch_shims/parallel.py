"""The shims of `torch.nn.DataParallel`'s transfers: with one device they split and join nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.cuda import comm
from torch.nn.parallel import _functions
from torch.nn.parallel import comm as parallel_comm

from torchperf_lint.verify.simulated.names import FACE, HOST, index_of, to_face
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.torch_shims.patching import Faces
from torchperf_lint.verify.simulated.torch_shims.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

faces = Faces()


def _check_devices(devices: Sequence[Any] | None) -> None:
    for device in devices or ():
        index_of(device)
    if devices is not None and len(devices) != 1:
        refuse("spreading tensors over more than one device")


def _scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The whole tensor goes to the one device, by an asynchronous copy."""
    if out is not None:
        refuse("torch.cuda.comm.scatter with out=")
    _check_devices(devices)
    return (tensor.to(FACE, non_blocking=True),)


def _gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The tensor of the one device."""
    if out is not None or len(tensors) != 1:
        refuse("torch.cuda.comm.gather of several tensors, or with out=")
    to_host = destination == -1 or (destination is not None and torch.device(destination) == HOST)
    return tensors[0].to(HOST) if to_host else tensors[0]


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 0) -> list[list[Tensor]]:
    """The tensors of the one device, which has them already."""
    _check_devices(devices)
    return [[tensor.to(FACE) for tensor in tensors]]


def _reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 0
) -> tuple[Tensor, ...]:
    """The tensors of the one device, to which there is nothing to add."""
    if len(inputs) != 1:
        refuse("adding up the tensors of several devices")
    return tuple(inputs[0])


@faces.replace(_functions, "_get_stream")
def _get_stream(device: torch.device) -> Stream:
    """A stream for copies from the host."""
    return Stream(to_face(device))


for _owner in (comm, parallel_comm):
    faces.replace(_owner, "scatter")(_scatter)
    faces.replace(_owner, "gather")(_gather)
    faces.replace(_owner, "broadcast_coalesced")(_broadcast_coalesced)
    faces.replace(_owner, "reduce_add_coalesced")(_reduce_add_coalesced)
