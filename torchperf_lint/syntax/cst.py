"""libcst's nodes, imported lazily: a run without candidates does not import libcst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libcst import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import libcst

    value = getattr(libcst, name)
    globals()[name] = value
    return value
