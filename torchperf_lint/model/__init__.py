"""The semantic model of one file: what rules may ask, by libcst node, with answers of yes, no or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchperf_lint.model.questions import Because, Device, Frequency, HotPath, Kind, Model, Site, Value

__all__ = ["Because", "Device", "Frequency", "HotPath", "Kind", "Model", "Site", "Value"]


def __getattr__(name: str) -> Any:
    """Load the model's questions with the first of these names: facts of files, which hold no values, need none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchperf_lint.model import questions

    return getattr(questions, name)
