"""What a user can tell the model about a project that its text does not show."""

from __future__ import annotations

from typing import NamedTuple


class Hints(NamedTuple):
    """Functions that run per batch (`train_step`, `Engine.step`) and names of loaders."""

    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()
