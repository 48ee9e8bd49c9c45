"""Stack space for deep trees and nested queries: a thousand `elif` nest a thousand deep in ordinary code."""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_R = TypeVar("_R")

FRAMES = 20_000
"""The recursion limit while such a thread runs."""

_STACK = 256 << 20
"""Bytes of its stack: a call in C takes a few hundred at most, and memory is only committed when used."""


class NoRoom(RecursionError):
    """No thread with a larger stack can be started."""


_whole_process = _thread.allocate_lock()  # held where the recursion limit or the stack size of new threads is set
_limits: list[int] = []  # of the threads with a larger stack that run now: the limit before each
_this_thread = _thread._local()


def has_room() -> bool:
    """Whether this thread is one with a larger stack."""
    return getattr(_this_thread, "has_room", False)


def take_room() -> None:
    """Let this thread count as one with a larger stack."""
    _this_thread.has_room = True


def with_room(function: Callable[[], _R]) -> _R:
    """What the function returns or raises in a thread with a larger stack; NoRoom if none can be made."""
    if has_room():
        return function()
    import threading

    returned: list[_R] = []
    raised: list[BaseException] = []

    def call() -> None:
        take_room()
        _raise_limit()
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)
        finally:
            _restore_limit()

    with _whole_process:
        size = threading.stack_size()
        try:
            threading.stack_size(_STACK)
            thread = threading.Thread(target=call, daemon=True)
            thread.start()
        except (RuntimeError, ValueError):
            raise NoRoom("no thread can be had that has room") from None
        finally:
            threading.stack_size(size)
    thread.join()  # where this is interrupted, the thread runs on
    for error in raised:
        raise error
    return returned[0]


def _raise_limit() -> None:
    with _whole_process:
        _limits.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_limits[-1], FRAMES))


def _restore_limit() -> None:
    with _whole_process:
        before = _limits.pop()
        if not _limits:  # no other one runs
            sys.setrecursionlimit(before)
