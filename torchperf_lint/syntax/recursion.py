"""Stack space for deep trees and nested queries: a thousand `elif` nest a thousand deep in ordinary code."""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_R = TypeVar("_R")

FRAMES = 20_000
"""The recursion limit of that thread."""

_STACK = 256 << 20
"""Bytes of its stack: a call in C takes a few hundred at most, and memory is only committed when used."""


class NoRoom(RecursionError):
    """No thread with a larger stack can be started."""


_one_thread = _thread.allocate_lock()  # the recursion limit and the stack size belong to the whole process
_large_thread: int | None = None


def has_room() -> bool:
    """Whether this thread is the one with the larger stack."""
    return _large_thread == _thread.get_ident()


def with_room(function: Callable[[], _R]) -> _R:
    """What the function returns or raises in a thread with a larger stack; NoRoom if none can be made."""
    if has_room():
        return function()
    import threading

    returned: list[_R] = []
    raised: list[BaseException] = []

    def call() -> None:
        global _large_thread
        _large_thread = _thread.get_ident()
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)
        finally:
            _large_thread = None

    with _one_thread:
        limit, size = sys.getrecursionlimit(), threading.stack_size()
        try:
            threading.stack_size(_STACK)
            thread = threading.Thread(target=call, daemon=True)
            sys.setrecursionlimit(max(limit, FRAMES))
            thread.start()
            threading.stack_size(size)
            thread.join()
        except (RuntimeError, ValueError):
            raise NoRoom("no thread can be had that has room") from None
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    for error in raised:
        raise error
    return returned[0]
