"""Findings as JSON, one object per line: those of `json`, and one for each file that could not be checked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.report import NOT_CHECKED, NOT_CHECKED_NAME
from torchperf_lint.report.json import plain
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic, Failure
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield a JSON object for each finding, then for each file that could not be checked."""
    sources = Sources(context.read)
    for diagnostic in diagnostics:
        yield json.dumps(plain(diagnostic, sources))
    for failure in context.failures:
        yield json.dumps(_failed(failure))


def _failed(failure: Failure) -> dict[str, Any]:
    place = {"row": failure.row or 1, "column": failure.column or 1}
    return {
        "code": NOT_CHECKED,
        "name": NOT_CHECKED_NAME,
        "severity": "error",
        "message": failure.reason,
        "filename": failure.path,
        "location": place,
        "end_location": place,
        "fix": None,
        "noqa_row": None,
        "url": None,
        "because": [],
        "path": [f"{failure.path}:{place['row']}"],
    }
