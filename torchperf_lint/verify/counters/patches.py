"""Replaces attributes of modules and classes, and restores them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch.jit._builtins import _find_builtin, _get_builtin_table, _register_builtin
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

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
        operator = _find_builtin(original)  # type: ignore[no-untyped-call]
        if operator is not None:  # `torch.jit.script` compiles calls of the replacement as those of the operator
            _register_builtin(replacement, operator)
            self._undo.append(functools.partial(_get_builtin_table().pop, id(replacement), None))  # type: ignore[no-untyped-call]
        allowed = UninitializedTensorMixin._allowed_methods  # of the parameters of lazy modules
        if any(original is each for each in allowed):
            allowed.append(replacement)
            self._undo.append(functools.partial(allowed.remove, replacement))
        setattr(owner, name, replacement)
        self._undo.append(
            functools.partial(delattr, owner, name) if inherited else functools.partial(setattr, owner, name, original)
        )

    def undo(self) -> None:
        """Restore everything."""
        while self._undo:
            self._undo.pop()()
