"""Findings as JSON: a list of objects with ruff's field names and our own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import Safety
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic, Edit, Fix
    from torchperf_lint.report import Context
    from torchperf_lint.syntax.source import Source

_APPLICABILITY = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SHOWN: "display"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of a JSON list, one finding per line."""
    sources = Sources(context.read)
    opening = "["
    for diagnostic in diagnostics:
        yield opening + json.dumps(plain(diagnostic, sources))
        opening = ","
    yield "]" if opening == "," else "[]"


def plain(diagnostic: Diagnostic, sources: Sources) -> dict[str, Any]:
    """A finding as plain data; `sources` locates its edits."""
    steps = [(step.path or diagnostic.path, step.row, step.text) for step in diagnostic.because]
    source = sources.get(diagnostic.path) if diagnostic.fix else None
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "filename": diagnostic.path,
        "location": _location(diagnostic.row, diagnostic.column),
        "end_location": _location(diagnostic.end_row, diagnostic.end_column),
        "fix": _fix(diagnostic.fix, source) if diagnostic.fix and source else None,
        "noqa_row": diagnostic.noqa_rows[1],
        "url": None,  # the pages are part of the tool: `torchperf-lint explain CODE`
        "because": [{"filename": path, "row": row, "message": text} for path, row, text in steps],
        # The places to read in turn: evidence first, the finding last.
        "path": [*(f"{path}:{row}" for path, row, _ in steps), f"{diagnostic.path}:{diagnostic.row}"],
    }


def _fix(fix: Fix, source: Source) -> dict[str, Any]:
    return {
        "applicability": _APPLICABILITY[fix.safety],
        "message": fix.message,
        "edits": [_edit(edit, source) for edit in fix.edits],
    }


def _edit(edit: Edit, source: Source) -> dict[str, Any]:
    return {
        "content": edit.content.decode(),
        "location": _location(*source.position(edit.start)),
        "end_location": _location(*source.position(edit.end)),
    }


def _location(row: int, column: int) -> dict[str, int]:
    return {"row": row, "column": column}
