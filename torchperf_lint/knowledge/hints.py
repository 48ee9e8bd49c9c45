"""What a user can tell the model about a project that its text does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Hints(NamedTuple):
    """Functions that run per batch (`train_step`, `Engine.step`) and names of loaders."""

    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()


class BadName(ValueError):
    """A text that no name in a program can be; the message says which."""


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names as they are; raise BadName for the first that is none, nor several joined by dots."""
    checked = tuple(names)
    for name in checked:
        if not all(part.isidentifier() for part in name.split(".")):
            raise BadName(f"`{name}` is not a name such as `step` or `Engine.step`")
    return checked
