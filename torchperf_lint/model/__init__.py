"""The semantic model of one file: queries by libcst node that rules may make, answered yes, no or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchperf_lint.model.questions import Because, Device, Frequency, HotPath, Kind, Model, Site, Value

__all__ = ["Because", "Device", "Frequency", "HotPath", "Kind", "Model", "Site", "Value"]


def __getattr__(name: str) -> Any:
    """Import `questions` lazily, on the first use of one of these names: file symbols hold no values."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchperf_lint.model import questions

    return getattr(questions, name)
