"""Findings in the Reviewdog Diagnostic Format, whose suggestions reviewdog posts beside the lines of a change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import CellPath
from torchperf_lint.report import NOT_CHECKED, placed, weighed_message
from torchperf_lint.report.identity import absolute, row_in_file, well_formed
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Because, Diagnostic, Edit, Failure
    from torchperf_lint.report import Context
    from torchperf_lint.syntax.source import Source

_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of one JSON object with all findings, then all files that could not be checked."""
    sources = Sources(context.read)
    found = [_diagnostic(each, sources, context) for each in diagnostics]
    found += map(_failed, context.failures)
    yield json.dumps({"source": {"name": "torchperf-lint"}, "severity": "WARNING", "diagnostics": found}, indent=2)


def _diagnostic(diagnostic: Diagnostic, sources: Sources, context: Context) -> dict[str, Any]:
    path, source = diagnostic.path, sources.get(diagnostic.path)
    value: dict[str, Any] = {
        "message": well_formed(weighed_message(diagnostic)),
        "location": _location(path, _range(diagnostic, source)),
        "severity": _SEVERITIES[diagnostic.severity],
        "code": {"value": diagnostic.code},
    }
    if diagnostic.because:
        value["related_locations"] = [_step(step, path) for step in diagnostic.because]
    if diagnostic.fix is not None and context.fixable(diagnostic) and source is not None and not _in_cell(path):
        suggestion = _suggestion(diagnostic.fix.edits, source)
        value |= {"suggestions": [suggestion]} if suggestion else {}
    return value


def _failed(failure: Failure) -> dict[str, Any]:
    return {
        "message": well_formed(failure.reason),
        "location": _location(failure.path, {"start": _position(failure.row or 1, failure.column)}),
        "severity": "ERROR",
        "code": {"value": NOT_CHECKED},
    }


def _step(step: Because, path: str) -> dict[str, Any]:
    place = step.path or path
    row, text = row_in_file(place, step.row), placed(place, step.row, step.text)
    return {"message": well_formed(text), "location": _location(place, {"start": _position(row)})}


def _range(diagnostic: Diagnostic, source: Source | None) -> dict[str, Any]:
    """The place; its columns count bytes of UTF-8, and a cell has no rows of its file."""
    if _in_cell(diagnostic.path):
        return {"start": _position(1)}
    rows = (diagnostic.row, diagnostic.end_row)
    if source is None or diagnostic.end > len(source.utf8):
        return {"start": _position(rows[0]), "end": _position(rows[1])}
    columns = (
        at - source.line_starts[row - 1] + 1 for at, row in zip((diagnostic.start, diagnostic.end), rows, strict=True)
    )
    start, end = map(_position, rows, columns)
    return {"start": start, "end": end}


def _suggestion(edits: Iterable[Edit], source: Source) -> dict[str, Any] | None:
    """All edits as one text in the place of whole rows: a part of a fix would be no fix.

    None where one empty row is left, which reviewdog cannot tell from no row.
    """
    ordered = sorted(edits)
    first, last = source.row(ordered[0].start), max(_last_row(edit, source) for edit in ordered)
    start = source.line_starts[first - 1]
    text = source.utf8[start : source.line_starts[last] if last < len(source.line_starts) else None]
    for edit in reversed(ordered):
        text = text[: edit.start - start] + edit.content + text[edit.end - start :]
    rows = text.decode().removesuffix("\n").removesuffix("\r")
    if text and not rows:
        return None
    return {"range": {"start": _position(first), "end": _position(last)}, "text": rows}


def _last_row(edit: Edit, source: Source) -> int:
    """The last row that an edit changes: not the one at whose beginning it ends, if that stays a beginning."""
    row = source.row(edit.end)
    before = edit.content[-1:] or source.utf8[max(edit.start - 1, 0) : edit.start]
    ends_before = edit.start < edit.end == source.line_starts[row - 1] and before in (b"", b"\n", b"\r")
    return row - 1 if ends_before else row


def _location(path: str, place: dict[str, Any]) -> dict[str, Any]:
    return {"path": well_formed(absolute(path)), "range": place}


def _position(row: int, column: int | None = None) -> dict[str, int]:
    return {"line": row} if column is None else {"line": row, "column": column}


def _in_cell(path: str) -> bool:
    return isinstance(path, CellPath)
