"""libcst's nodes, imported at first use: a run without a candidate never pays for importing libcst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libcst import *  # noqa: F403


def __getattr__(name: str) -> Any:
    import libcst

    value = getattr(libcst, name)
    globals()[name] = value
    return value
