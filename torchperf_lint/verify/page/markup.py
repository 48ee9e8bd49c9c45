"""Markup of the pages about verified rules and profiled programs, above the elements that all our pages share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_lint.report import elements
from torchperf_lint.report.elements import Markup, escaped, join, percent, picture, plain, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

__all__ = ["Markup", "document", "escaped", "facts", "join", "percent", "picture", "plain", "short", "tag"]


def document(title: str, parts: Iterable[str]) -> str:
    """A self-contained page."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return elements.document(title, parts, style)


def facts(told: Mapping[str, object]) -> Markup:
    """Names with their values, a dash where there is none."""
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", str(value) if value != "" else "–")) for name, value in told.items()),
    )


def short(value: float | Fraction) -> str:
    """A number for a glance: about three digits of it."""
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return plain(round(float(value), decimals)) if math.isfinite(value) else plain(value)
