"""Detects pinned sources that are overwritten before their asynchronous copy is waited for.

Here a copy is done at once, so a program that writes to the source too early computes the same as with a wait. A GPU
may copy the new bytes. So the source's bytes are checked again later: they must equal the copied ones. A wait for any
stream counts as the end of all copies that were queued before.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.verify.events import Place, locate
from torchperf_lint.verify.simulated.internals import StorageWeakRef

if TYPE_CHECKING:
    import torch

_MOST = 256
"""A copy counts as done after this many later ones, because the bytes of all are checked in every step."""


class _Copy(NamedTuple):
    """A range of host memory with its contents at the time of the copy, and the copy's line."""

    number: int
    storage: Any
    address: int
    nbytes: int
    contents: int
    where: Place

    @property
    def is_overwritten(self) -> bool:
        """Whether the memory changed; freed pinned memory is not reused too early."""
        return not self.storage.expired() and _sum_of(self.address, self.nbytes) != self.contents


_copies: list[_Copy] = []
_overwritten: list[Place] = []
_lock = threading.Lock()
_last = 0


def begin(source: torch.Tensor) -> None:
    """Queue a copy from this dense tensor in pinned memory."""
    global _last
    address, nbytes = source.data_ptr(), source.numel() * source.element_size()
    storage, where = StorageWeakRef(source.untyped_storage()), locate(sys._getframe(1))[0]
    with _lock:
        _last += 1
        _copies.append(_Copy(_last, storage, address, nbytes, _sum_of(address, nbytes), where))
        if len(_copies) > _MOST:
            _drop(_copies[0].number)


def queued() -> int:
    """A mark after the copies that are queued so far."""
    return _last


def end(mark: int | None = None) -> None:
    """The host has waited: the copies before the mark are done, or all."""
    with _lock:
        _drop(_last if mark is None else mark)


def look() -> None:
    """Find overwritten sources while the program still holds them."""
    with _lock:
        for copy in [each for each in _copies if each.is_overwritten]:
            _overwritten.append(copy.where)
            _copies.remove(copy)


def overwritten() -> list[Place]:
    """The lines of copies whose source was overwritten before their end, one entry per copy."""
    look()
    return _overwritten


def _drop(last: int) -> None:
    _overwritten.extend(each.where for each in _copies if each.number <= last and each.is_overwritten)
    _copies[:] = [each for each in _copies if each.number > last and not each.storage.expired()]


def _sum_of(address: int, nbytes: int) -> int:
    return zlib.crc32((ctypes.c_char * nbytes).from_address(address))
