"""The shims of tensors: their device's name, copies to and from the device, pinning, and device names in calls."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated import processes
from torchperf_lint.verify.simulated.internals import core
from torchperf_lint.verify.simulated.journal import note
from torchperf_lint.verify.simulated.memory import is_pinned, mark_pinned
from torchperf_lint.verify.simulated.names import (
    BACKEND,
    BACKEND_DEVICE,
    FACE,
    HOST,
    device_inside,
    on_device,
    to_backend,
)
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.releases import NUMBERS_ARE_FILLED_IN
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()


# ---- where a tensor is


def _device(tensor: Tensor) -> torch.device:
    device: torch.device = device_inside(tensor)
    return FACE if device.type == BACKEND else device


faces.set(Tensor, "device", property(_device))
faces.set(Tensor, "is_cuda", property(on_device))


@faces.wrap(Tensor, "get_device")
def _get_device(original: Callable[..., int], tensor: Tensor) -> int:
    return 0 if on_device(tensor) else original(tensor)


@faces.wrap(Tensor, "type")
def _type(
    original: Callable[..., Any], tensor: Tensor, dtype: Any = None, non_blocking: bool = False, **keywords: Any
) -> Any:
    if dtype is None:
        return str(original(tensor)).replace(f"torch.{BACKEND}.", "torch.cuda.")
    if isinstance(dtype, type):
        dtype = f"{dtype.__module__}.{dtype.__name__}"
    if isinstance(dtype, torch.dtype):
        return tensor.to(dtype, non_blocking=non_blocking)
    named = getattr(torch, dtype.rpartition(".")[2].removesuffix("Tensor").lower())
    return tensor.to(FACE if ".cuda." in dtype else HOST, named, non_blocking=non_blocking)


# ---- to the device and back


@faces.wrap(Tensor, "to")
def _to(original: Callable[..., Tensor], tensor: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    if arguments:
        arguments = (to_backend(arguments[0]), *arguments[1:])
    if "device" in keywords:
        keywords["device"] = to_backend(keywords["device"])
    return original(tensor, *arguments, **keywords)


@faces.replace(Tensor, "cuda")
def _cuda(
    tensor: Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    target = BACKEND_DEVICE if device is None else to_backend(device)
    return tensor.to(target, non_blocking=non_blocking, memory_format=memory_format)


@faces.wrap(Tensor, "numpy")
def _numpy(original: Callable[..., Any], tensor: Tensor, *, force: bool = False) -> Any:
    if not on_device(tensor):
        return original(tensor, force=force)
    if not force:
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return original(tensor.detach().cpu(), force=True)


@faces.wrap(Tensor, "__setitem__")
def _setitem(original: Callable[..., None], tensor: Tensor, index: Any, value: Any) -> None:
    """Assign as torch does for CUDA, for which its C++ checks the device type."""
    if on_device(tensor):
        if NUMBERS_ARE_FILLED_IN:
            index = _with_kept_integers(index, tensor, value)
        elif isinstance(value, (int, float, complex)):
            value = torch.tensor(value, dtype=tensor.dtype, device=HOST)
    original(tensor, index, value)


def _with_kept_integers(index: Any, tensor: Tensor, value: Any) -> Any:
    """The index with each device-side integer as a one-element index tensor, whose value is not read."""
    if isinstance(value, Tensor) and (
        value.dim() or not on_device(value) or value.dtype != tensor.dtype or _share_memory(value, tensor)
    ):
        return index
    kept = [
        each.view(1)
        if isinstance(each, Tensor)
        and on_device(each)
        and not each.dim()
        and each.dtype in (torch.int64, torch.int32)
        and not _share_memory(each, tensor)
        else each
        for each in (index if isinstance(index, tuple) else (index,))
    ]
    return tuple(kept) if isinstance(index, tuple) else kept[0]


def _share_memory(tensor: Tensor, other: Tensor) -> bool:
    return bool(tensor.untyped_storage()._cdata == other.untyped_storage()._cdata)


# ---- memory that other libraries would take for that of a GPU


def _array_interface(tensor: Tensor) -> Any:
    if on_device(tensor):
        refuse("the memory of a tensor on the device, for another library")
    raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type")


faces.set(Tensor, "__cuda_array_interface__", property(_array_interface))


@faces.wrap(Tensor, "__dlpack__", "__dlpack_device__")
@faces.wrap(torch.utils.dlpack, "to_dlpack")
@faces.wrap(torch, "to_dlpack")
def _export(original: Callable[..., Any], tensor: Tensor, *arguments: Any, **keywords: Any) -> Any:
    if on_device(tensor):
        refuse("the memory of a tensor on the device, for another library")
    return original(tensor, *arguments, **keywords)


# ---- pinned memory


@faces.replace(Tensor, "pin_memory")
def _pin_memory(tensor: Tensor, device: Any = None) -> Tensor:
    processes.use()
    if on_device(tensor):
        kind = tensor.type().rpartition(".")[2]
        raise RuntimeError(f"cannot pin 'torch.cuda.{kind}' only dense CPU tensors can be pinned")
    if tensor.layout is not torch.strided:
        refuse(f"pinning tensors of layout {tensor.layout}")
    if is_pinned(tensor):
        return tensor
    note(Kind.PIN, "pin_memory", waits=False, nbytes=tensor.nbytes, pinned=True)
    return mark_pinned(tensor.clone())


@faces.replace(Tensor, "is_pinned")
def _is_pinned(tensor: Tensor, device: Any = None) -> bool:
    return is_pinned(tensor)


# ---- what a tensor's memory becomes when other memory is assigned to it

_MODULE_APPLY = torch.nn.Module._apply.__code__
_data_inside = core.TensorBase.data


def _assign_data(tensor: Tensor, other: Tensor) -> None:
    """`tensor.data = other`; torch refuses other kinds of memory for this backend, so the tensors swap memory."""
    if on_device(tensor) == on_device(other):
        _data_inside.__set__(tensor, other)
        return
    if tensor.requires_grad and getattr(tensor, "_backward_hooks", None):
        refuse("moving a tensor that has hooks to another device by `.data =`, or by `Module.to`")
    gradient = tensor.grad
    if gradient is not None and sys._getframe(1).f_code is not _MODULE_APPLY:
        refuse("moving a tensor that has a gradient to another device by `.data =`")
    fresh = other.detach()
    fresh.requires_grad_(tensor.requires_grad)
    tensor.grad = None
    core._swap_tensor_impl(tensor, fresh)
    if gradient is not None:
        tensor.grad = gradient.to(tensor.device)  # `Module.to` is about to move it anyway


faces.set(Tensor, "data", property(_data_inside.__get__, _assign_data))


@faces.wrap(torch, "_has_compatible_shallow_copy_type")
def _has_compatible_type(original: Callable[..., bool], tensor: Tensor, other: Tensor) -> bool:
    return on_device(tensor) != on_device(other) or original(tensor, other)


# ---- what torch answers with the backend's own name


@faces.wrap(core, "_group_tensors_by_device_and_dtype")
def _group_tensors(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    groups = original(*arguments, **keywords)
    return {
        ((FACE if device is not None and device.type == BACKEND else device), dtype): group
        for (device, dtype), group in groups.items()
    }
