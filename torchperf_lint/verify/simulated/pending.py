"""Asynchronous copies from pinned memory whose end nobody has waited for: their sources must stay as they are.

Here a copy is done at once, so that a program which writes to the source too early computes what it would have computed
if it had waited. A GPU may copy what was written. So the source's bytes are looked at again later: they must be those
that were copied. A wait for any stream counts as the end of all copies that were queued before.
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
"""A copy that so many others came after is taken to be done: the bytes of all are looked at in every step."""


class _Copy(NamedTuple):
    """A stretch of host memory with its contents when it was copied, and the line that asked for the copy."""

    number: int
    storage: Any
    address: int
    nbytes: int
    contents: int
    where: Place

    @property
    def is_overwritten(self) -> bool:
        """Whether the memory holds something else now; pinned memory that was freed is not handed out too early."""
        return not self.storage.expired() and _sum_of(self.address, self.nbytes) != self.contents


_copies: list[_Copy] = []
_overwritten: list[Place] = []
_lock = threading.Lock()
_last = 0


def begin(source: torch.Tensor) -> None:
    """A copy from this tensor in pinned memory, whose elements fill a stretch without gaps, is queued now."""
    global _last
    address, nbytes = source.data_ptr(), source.numel() * source.element_size()
    storage, where = StorageWeakRef(source.untyped_storage()), locate(sys._getframe(1))[0]
    with _lock:
        _last += 1
        _copies.append(_Copy(_last, storage, address, nbytes, _sum_of(address, nbytes), where))
        if len(_copies) > _MOST:
            _drop(_copies[0].number)


def queued() -> int:
    """A mark behind the copies that are queued by now."""
    return _last


def end(mark: int | None = None) -> None:
    """The host has waited: the copies before the mark are done, or all."""
    with _lock:
        _drop(_last if mark is None else mark)


def look() -> None:
    """Find the sources that were written to, while the program still holds them."""
    with _lock:
        for copy in [each for each in _copies if each.is_overwritten]:
            _overwritten.append(copy.where)
            _copies.remove(copy)


def overwritten() -> list[Place]:
    """The lines of the copies whose source was written to before their end, once for each such copy."""
    look()
    return _overwritten


def _drop(last: int) -> None:
    _overwritten.extend(each.where for each in _copies if each.number <= last and each.is_overwritten)
    _copies[:] = [each for each in _copies if each.number > last and not each.storage.expired()]


def _sum_of(address: int, nbytes: int) -> int:
    return zlib.crc32((ctypes.c_char * nbytes).from_address(address))
