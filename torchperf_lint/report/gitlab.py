"""Findings as a code quality report of GitLab, which compares the fingerprints of two branches."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from torchperf_lint.report import NOT_CHECKED, weighed_message
from torchperf_lint.report.identity import Fingerprints, below, digest, region_in_file, well_formed
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of a JSON list: the findings, then the files that could not be checked."""
    fingerprints = Fingerprints(Sources(context.read))
    root = os.environ.get("CI_PROJECT_DIR") or os.curdir
    issues = []
    for each in diagnostics:
        path = _path(each.path, root)
        region = region_in_file(each)
        begin, end = _position(region.row, region.column), _position(region.end_row, region.end_column)
        severity, fingerprint = _SEVERITIES[each.severity], fingerprints.of(each, path)
        issues.append(_issue(each.code, weighed_message(each), severity, fingerprint, path, begin, end))
    for failure in context.failures:
        path = _path(failure.path, root)
        begin = _position(failure.row or 1, failure.column or 1)
        fingerprint = digest(NOT_CHECKED, path, failure.reason)
        issues.append(_issue(NOT_CHECKED, failure.reason, "major", fingerprint, path, begin, begin))
    yield json.dumps(issues, indent=2)


def _path(path: str, root: str) -> str:
    """The path from the root of the repository, as GitLab has it."""
    return below(path, root) or path.replace(os.sep, "/")


def _position(row: int, column: int) -> dict[str, int]:
    return {"line": row, "column": column}


def _issue(
    code: str, message: str, severity: str, fingerprint: str, path: str, begin: dict[str, int], end: dict[str, int]
) -> dict[str, Any]:
    return {
        "check_name": code,
        "description": well_formed(f"{code}: {message}"),
        "severity": severity,
        "fingerprint": fingerprint,
        "location": {"path": well_formed(path), "positions": {"begin": begin, "end": end}},
    }
