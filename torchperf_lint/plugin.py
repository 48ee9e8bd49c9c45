"""What a package with rules of its own imports: the declaration of rules, what they ask, and what they report.

`docs/plugins.md` has a worked example. Names that are not listed here are no part of the interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.declare import Category, Rule, rule
from torchperf_lint.engine.findings import (
    Because,
    Edit,
    Finding,
    Fix,
    Loss,
    NoFix,
    Rate,
    Safety,
    Severity,
    Unproven,
)

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site

__all__ = [
    "Because",
    "Category",
    "Edit",
    "Finding",
    "Fix",
    "Loss",
    "Model",
    "NoFix",
    "Rate",
    "Rule",
    "Safety",
    "Severity",
    "Site",
    "Unproven",
    "rule",
]


def __getattr__(name: str) -> Any:
    """Import the model on the first use of its names: it is seldom needed to declare a rule."""
    if name not in ("Model", "Site"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchperf_lint import model

    return getattr(model, name)
