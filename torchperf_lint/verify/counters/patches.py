"""Replacing attributes of modules and classes, and putting them back."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Patches:
    """Replaced attributes; they are put back in the opposite order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """Let `make` turn the callable that stands there into the one that shall."""
        original = getattr(owner, name)
        inherited = name not in vars(owner)
        setattr(owner, name, functools.wraps(original)(make(original)))
        self._undo.append(
            functools.partial(delattr, owner, name) if inherited else functools.partial(setattr, owner, name, original)
        )

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()
