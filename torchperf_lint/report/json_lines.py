"""Findings as JSON, one object per line: the objects of `json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchperf_lint.report.json import objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield a JSON object for each finding, then for each file that could not be checked."""
    yield from map(json.dumps, objects(diagnostics, context))
