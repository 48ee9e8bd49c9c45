"""Kernels that copy memory between host and device, and kernels that replace a tensor's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import pending, processes
from torchperf_lint.verify.simulated.journal import note, note_operator
from torchperf_lint.verify.simulated.kernels import replace_memory, run_on_metadata, set_memory
from torchperf_lint.verify.simulated.memory import (
    host_alias,
    is_device_memory,
    is_pinned,
    mark_pinned,
    new_on_device,
)
from torchperf_lint.verify.simulated.names import HOST, is_device, on_device

if TYPE_CHECKING:
    from collections.abc import Sequence


def copy_(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """`target.copy_(source)`, with one of them, or both, on the device."""
    processes.use()
    note_operator("copy_")
    to_device, from_device = on_device(target), on_device(source)
    _note_copy("copy_", source, target, from_device, to_device, non_blocking)
    host_target = host_alias(target) if to_device else target
    host_target.copy_(host_alias(source) if from_device else source)
    return target


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """`_copy_from`: the copy kernel that the source's backend provides."""
    return copy_(target, source, non_blocking)


def to_copy(
    source: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """`_to_copy`, which `Tensor.to` becomes; host tensors on their way to the device come here as well."""
    processes.use()
    note_operator("_to_copy")
    from_device = on_device(source)
    to_device = from_device if device is None else is_device(device)
    copied: torch.Tensor = torch.ops.aten._to_copy.default(
        host_alias(source) if from_device else source, dtype=dtype, memory_format=memory_format
    )
    if from_device and not to_device and non_blocking:
        mark_pinned(copied)  # an asynchronous copy to the host goes to pinned memory
    _note_copy("to", source, copied, from_device, to_device, non_blocking)
    return new_on_device(copied) if to_device else copied


def item(tensor: torch.Tensor) -> Any:
    """Read the one value of a tensor."""
    processes.use()
    note_operator("item")
    note(Kind.READ, "item", waits=True, nbytes=tensor.element_size())
    return host_alias(tensor).item()


def resize_(
    tensor: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """Resize the tensor: over its own memory, or over a larger copy of it."""
    processes.use()
    size = torch.Size(size)
    if size == tensor.shape and memory_format is None:
        return tensor
    layout = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
    offset, storage = int(tensor.storage_offset()), tensor.untyped_storage()
    needed = (offset + size.numel()) * tensor.element_size()
    if needed > storage.nbytes():
        kept = storage.nbytes() // tensor.element_size()
        old = run_on_metadata(torch.ops.aten.as_strided.default, tensor, (kept,), (1,), 0)
        grown = torch.empty(offset + size.numel(), dtype=tensor.dtype, device=HOST)
        grown[:kept].copy_(host_alias(old))
        storage = new_on_device(grown).untyped_storage()
    set_memory(tensor, storage, offset, size, layout.stride())
    return tensor


def forget_memory(tensor: torch.Tensor) -> torch.Tensor:
    """`set_()` without arguments: the tensor is empty afterwards."""
    replace_memory(tensor, torch.empty(0, dtype=tensor.dtype, device=HOST))
    return tensor


def zero_tensor(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """`_efficientzerotensor`: here one with memory."""
    return new_on_device(torch.zeros(size, dtype=dtype, device=HOST))


def is_pinned_on_device(tensor: torch.Tensor, device: torch.device | None = None) -> bool:
    """Memory of the device is never pinned."""
    return False


def _note_copy(
    operator: str,
    source: torch.Tensor,
    target: torch.Tensor,
    from_device: bool,
    to_device: bool,
    non_blocking: bool,
) -> None:
    """Record a copy between host and device; copies between the two names of the device are not copies."""
    on_host = target if from_device else source
    if (from_device and to_device) or not target.numel() or is_device_memory(on_host):
        return
    pinned = is_pinned(on_host) and _in_one_piece(source, target, from_device, non_blocking)
    note(
        Kind.TO_HOST if from_device else Kind.TO_DEVICE,
        operator,
        waits=not non_blocking,
        nbytes=target.numel() * target.element_size(),
        pinned=pinned,
        asynchronous=non_blocking,
    )
    if to_device and non_blocking and pinned:
        pending.begin(source)


def _in_one_piece(source: torch.Tensor, target: torch.Tensor, from_device: bool, non_blocking: bool) -> bool:
    """Whether CUDA copies directly from or to the host's tensor, without a pageable temporary.

    An asynchronous copy changes the dtype on the device, a blocking one on the host.
    """
    same_dtype = source.dtype == target.dtype
    if same_dtype and source.stride() == target.stride() and _is_dense(source):
        return True
    on_host = target if from_device else source
    return on_host.is_contiguous() and (same_dtype or non_blocking)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a stretch of memory without gaps."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return last + 1 == tensor.numel()
