"""The user's hints for what a project's text does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Hints(NamedTuple):
    """Functions that run per batch (`train_step`, `Engine.step`) and names of loaders."""

    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()


class BadName(ValueError):
    """A text that cannot be a name in a program; the message contains it."""


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names unchanged; raise BadName for the first that is neither an identifier nor a dotted name."""
    checked = tuple(names)
    for name in checked:
        if not all(part.isidentifier() for part in name.split(".")):
            raise BadName(f"`{name}` is not a name such as `step` or `Engine.step`")
    return checked
