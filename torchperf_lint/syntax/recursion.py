"""Room for trees that are deep: a thousand `elif` nest a thousand deep, and are no bomb.

Whoever meets the usual limit of recursion begins again in a thread whose stack has room for many more frames.
"""

from __future__ import annotations

import _thread
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_R = TypeVar("_R")

FRAMES = 20_000
"""How many calls may be nested there."""

_STACK = 256 << 20
"""Bytes of stack: of no call in C more than a few hundred are taken, and none before it is made."""

_one_at_a_time = _thread.allocate_lock()  # the limit and the size of stacks are those of the whole process
_roomy: int | None = None


def has_room() -> bool:
    """Whether this thread is the one with room."""
    return _roomy == _thread.get_ident()


def with_room(function: Callable[[], _R]) -> _R:
    """What the function returns or raises in a thread with room; RecursionError where none can be had."""
    if has_room():
        return function()
    import threading

    returned: list[_R] = []
    raised: list[BaseException] = []

    def call() -> None:
        global _roomy
        _roomy = _thread.get_ident()
        try:
            returned.append(function())
        except BaseException as error:
            raised.append(error)
        finally:
            _roomy = None

    with _one_at_a_time:
        limit, size = sys.getrecursionlimit(), threading.stack_size()
        try:
            threading.stack_size(_STACK)
            thread = threading.Thread(target=call, daemon=True)
            sys.setrecursionlimit(max(limit, FRAMES))
            thread.start()
            threading.stack_size(size)
            thread.join()
        except (RuntimeError, ValueError):
            raise RecursionError("no thread can be had that has room") from None
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    for error in raised:
        raise error
    return returned[0]
