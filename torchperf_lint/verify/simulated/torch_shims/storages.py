"""The shims of storages, which saving, loading and deep copies use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import UntypedStorage

from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.simulated.internals import core
from torchperf_lint.verify.simulated.journal import note
from torchperf_lint.verify.simulated.memory import is_pinned_storage, mark_pinned, new_on_device
from torchperf_lint.verify.simulated.names import BACKEND, FACE, HOST, is_device, to_backend
from torchperf_lint.verify.simulated.torch_shims.patching import Faces, refusing

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()

_device_inside = core.StorageBase.device.__get__


def _on_device(storage: UntypedStorage) -> bool:
    return bool(_device_inside(storage).type == BACKEND)


def _device(storage: UntypedStorage) -> torch.device:
    device: torch.device = _device_inside(storage)
    return FACE if device.type == BACKEND else device


faces.set(UntypedStorage, "device", property(_device))
faces.set(UntypedStorage, "is_cuda", property(_on_device))
faces.set(UntypedStorage, "_share_cuda_", refusing("sending tensors of the device to another process"))


def _to_device(storage: UntypedStorage, non_blocking: bool) -> UntypedStorage:
    made = new_on_device(torch.empty(storage.nbytes(), dtype=torch.uint8, device=HOST)).untyped_storage()
    copied: UntypedStorage = made.copy_(storage, non_blocking)
    return copied


@faces.wrap(UntypedStorage, "to")
def _to(
    original: Callable[..., UntypedStorage], storage: UntypedStorage, *, device: Any, non_blocking: bool = False
) -> UntypedStorage:
    target = torch.device(to_backend(device))
    if not is_device(target):
        return original(storage, device=target, non_blocking=non_blocking)
    return storage if _on_device(storage) else _to_device(storage, non_blocking)


@faces.replace(UntypedStorage, "cuda")
def _cuda(storage: UntypedStorage, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
    moved: UntypedStorage = storage.to(device=FACE if device is None else device, non_blocking=non_blocking)
    return moved


@faces.wrap(UntypedStorage, "clone")
def _clone(original: Callable[..., UntypedStorage], storage: UntypedStorage) -> UntypedStorage:
    return _to_device(storage, non_blocking=False) if _on_device(storage) else original(storage)


@faces.wrap(UntypedStorage, "__deepcopy__")
def _deepcopy(original: Callable[..., UntypedStorage], storage: UntypedStorage, memo: dict[Any, Any]) -> UntypedStorage:
    if not _on_device(storage):
        return original(storage, memo)
    copies = memo.setdefault("torch", {})
    if storage._cdata not in copies:
        copies[storage._cdata] = _to_device(storage, non_blocking=False)
    copied: UntypedStorage = copies[storage._cdata]
    return copied


@faces.replace(UntypedStorage, "is_pinned")
def _is_pinned(storage: UntypedStorage, device: Any = None) -> bool:
    return is_pinned_storage(storage)


@faces.replace(UntypedStorage, "pin_memory")
def _pin_memory(storage: UntypedStorage, device: Any = None) -> UntypedStorage:
    if is_pinned_storage(storage):
        return storage
    note(Kind.PIN, "pin_memory", waits=False, nbytes=storage.nbytes(), pinned=True)
    pinned = torch.empty(storage.nbytes(), dtype=torch.uint8, device=HOST)
    pinned.untyped_storage().copy_(storage)
    return mark_pinned(pinned).untyped_storage()
