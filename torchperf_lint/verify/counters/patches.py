"""Replaces attributes of modules and classes, and restores them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch.jit._builtins import _find_builtin, _register_builtin

if TYPE_CHECKING:
    from collections.abc import Callable


class Patches:
    """Replaced attributes, restored in reverse order."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
        """Replace the callable by `make` of it."""
        original = getattr(owner, name)
        inherited = name not in vars(owner)
        replacement = functools.wraps(original)(make(original))
        _compile_as(replacement, original)
        setattr(owner, name, replacement)
        self._undo.append(
            functools.partial(delattr, owner, name) if inherited else functools.partial(setattr, owner, name, original)
        )

    def undo(self) -> None:
        """Restore everything."""
        while self._undo:
            self._undo.pop()()


def _compile_as(replacement: Callable[..., Any], original: Any) -> None:
    """Let `torch.jit.script` compile calls of the replacement as those of the original, if that is an operator."""
    operator = _find_builtin(original)  # type: ignore[no-untyped-call]
    if operator is not None:
        _register_builtin(replacement, operator)
