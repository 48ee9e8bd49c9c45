"""The mechanism of replacing parts of torch: functions declare what they replace; `put_on` installs them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify.simulated.internals import script_builtins
from torchperf_lint.verify.simulated.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Function = Callable[..., Any]


class Faces:
    """Replacements for attributes of modules and classes, installed together."""

    def __init__(self) -> None:
        self._pending: list[Callable[[], None]] = []

    def replace(self, owner: Any, *names: str) -> Callable[[Function], Function]:
        """The decorated function replaces these attributes."""

        def decorate(function: Function) -> Function:
            for name in names:
                self.set(owner, name, function)
            return function

        return decorate

    def wrap(self, owner: Any, *names: str) -> Callable[[Function], Function]:
        """The decorated function replaces these; it gets the original as its first argument."""

        def decorate(function: Function) -> Function:
            for name in names:
                self._pending.append(functools.partial(_wrap, owner, name, function))
            return function

        return decorate

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace the attribute by any value."""
        self._pending.append(functools.partial(setattr, owner, name, value))

    def refuse(self, owner: Any, names: Iterable[str], label: str) -> None:
        """Calls of these raise NotSimulated."""
        for name in names:
            original = getattr(owner, name)
            refused = (refusing_class if isinstance(original, type) else refusing)(f"{label}{name}")
            if hasattr(original, "__wrapped__"):  # torch unwraps some of its own functions
                refused.__wrapped__ = original.__wrapped__  # type: ignore[attr-defined]
            self.set(owner, name, refused)

    def put_on(self) -> None:
        """Install the replacements."""
        for put in self._pending:
            put()
        self._pending.clear()


def refusing(what: str) -> Function:
    """A function that raises NotSimulated for any arguments."""

    def refused(*arguments: Any, **keywords: Any) -> Any:
        refuse(what)

    return refused


def refusing_class(what: str, base: type = object) -> type:
    """A class that can be subclassed but raises NotSimulated on instantiation."""
    return type(what.rpartition(".")[2], (base,), {"__new__": refusing(what)})


def _wrap(owner: Any, name: str, function: Function) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def face(*arguments: Any, **keywords: Any) -> Any:
        return function(original, *arguments, **keywords)

    setattr(owner, name, face)
    scripted_name = script_builtins._find_builtin(original)
    if scripted_name is not None:  # torch.jit.script, which torch itself uses, identifies functions by identity
        script_builtins._register_builtin(face, scripted_name)
