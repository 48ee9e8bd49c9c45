"""The device's memory, which is host memory: aliases of a tensor on either side, and sets of pinned and live storages.

An alias is made through DLPack: the capsule that exports a tensor has its device type overwritten before it is
imported again. The result is a plain tensor on the other side that shares the memory and keeps it alive; the lazy
conjugate and negative bits, which DLPack lacks, are copied as well.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import torch

from torchperf_lint.verify.simulated.internals import StorageWeakRef, core
from torchperf_lint.verify.simulated.names import HOST
from torchperf_lint.verify.simulated.refusals import NotSimulated

_HOST_TYPE = 1  # kDLCPU
_DEVICE_TYPE = 12  # kDLExtDev, which torch maps to its backend for other accelerators
_DEVICE_TYPE_OFFSET = 8  # DLTensor begins with a pointer to the data; the device type comes next

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_export = core._to_dlpack
_import = core._from_dlpack


def _alias(tensor: torch.Tensor, device_type: int) -> torch.Tensor:
    try:
        capsule = _export(tensor.detach())  # the alias keeps its source, whose memory must never be replaced
    except (RuntimeError, BufferError) as error:
        kind = tensor.dtype if tensor.layout is torch.strided else tensor.layout
        raise NotSimulated(f"not simulated: tensors of {kind} on the device ({error})") from error
    ctypes.c_int32.from_address(_pointer_of(capsule, b"dltensor") + _DEVICE_TYPE_OFFSET).value = device_type
    aliased: torch.Tensor = _import(capsule)
    if tensor.is_conj():
        aliased = aliased.conj()
    return torch._neg_view(aliased) if tensor.is_neg() else aliased


def device_alias(tensor: torch.Tensor) -> torch.Tensor:
    """A device tensor that shares the memory of a host tensor."""
    return _alias(tensor, _DEVICE_TYPE)


def host_alias(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor that shares the memory of a device tensor."""
    return _alias(tensor, _HOST_TYPE)


class _Registry:
    """Storages by their address, forgotten when they are freed."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()
        self._sweep_at = 4096

    def add(self, key: int, storage: torch.UntypedStorage) -> None:
        with self._lock:
            self._entries[key] = (StorageWeakRef(storage), storage.nbytes())
            if len(self._entries) > self._sweep_at:
                self._sweep()
                self._sweep_at = 2 * len(self._entries) + 4096

    def __contains__(self, key: int) -> bool:
        entry = self._entries.get(key)
        return entry is not None and not entry[0].expired()

    def nbytes(self) -> int:
        with self._lock:
            self._sweep()
            return sum(nbytes for _, nbytes in self._entries.values())

    def _sweep(self) -> None:
        self._entries = {key: entry for key, entry in self._entries.items() if not entry[0].expired()}


_OWN_SEGMENT = 10 * 2**20
"""A block of at least this many bytes has its own segment of device memory; smaller ones share segments."""

_pinned = _Registry()
_live = _Registry()
_large = _Registry()
_reserved = 0


def mark_pinned(tensor: torch.Tensor) -> torch.Tensor:
    """Mark the memory of this host tensor as page-locked."""
    storage = tensor.untyped_storage()
    _pinned.add(storage._cdata, storage)
    return tensor


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the tensor lies in page-locked host memory."""
    return tensor.device == HOST and tensor.layout is torch.strided and tensor.untyped_storage()._cdata in _pinned


def is_pinned_storage(storage: torch.UntypedStorage) -> bool:
    """Whether the storage is page-locked host memory."""
    return storage._cdata in _pinned


_peak = 0


def new_on_device(host: torch.Tensor) -> torch.Tensor:
    """The device tensor that takes over a new host tensor's memory."""
    tensor = device_alias(host)
    storage = host.untyped_storage()
    _live.add(storage.data_ptr(), storage)
    if storage.nbytes() >= _OWN_SEGMENT:
        _large.add(storage.data_ptr(), storage)
        _reserve()
    return tensor


def _reserve() -> None:
    """Reserve segments: the allocator keeps them when their blocks are freed."""
    global _reserved
    _reserved = max(_reserved, _large.nbytes())


def give_back() -> bool:
    """Release the allocator's free segments; returns whether there were any."""
    global _reserved
    before, _reserved = _reserved, _large.nbytes()
    return before > _reserved


def is_device_memory(host: torch.Tensor) -> bool:
    """Whether a host tensor is in device memory, as results of the host backend's collectives are."""
    return host.untyped_storage().data_ptr() in _live


def allocated() -> int:
    """The bytes of the device that are in use now."""
    global _peak
    nbytes = _live.nbytes()
    _peak = max(_peak, nbytes)
    return nbytes


def peak() -> int:
    """The maximum of the bytes in use whenever they were queried; the true peak may be higher."""
    allocated()
    return _peak


def reset_peak() -> None:
    """Forget the peak."""
    global _peak
    _peak = 0
