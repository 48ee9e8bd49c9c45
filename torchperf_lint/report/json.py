"""Findings as JSON: a list of objects with ruff's field names and our own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import CellPath, Confidence, Safety, Severity, file_of
from torchperf_lint.report import NOT_CHECKED, NOT_CHECKED_NAME
from torchperf_lint.report.groups import group_names
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Cost, Diagnostic, Edit, Failure, Fix
    from torchperf_lint.report import Context
    from torchperf_lint.syntax.source import Source

_APPLICABILITY = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SHOWN: "display"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of a JSON list, one object per line."""
    opening = "["
    for each in objects(diagnostics, context):
        yield opening + json.dumps(each)
        opening = ","
    yield "]" if opening == "," else "[]"


def objects(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[dict[str, Any]]:
    """Plain data for each finding, by place, then for each file that could not be checked."""
    found, sources = list(diagnostics), Sources(context.read)
    for each, group in zip(found, group_names(found), strict=True):
        yield plain(each, sources, group)
    yield from map(_failed, context.failures)


def plain(diagnostic: Diagnostic, sources: Sources, group: str | None = None) -> dict[str, Any]:
    """A finding as plain data; `sources` locates its edits, and `group` names its group."""
    steps = [(step.path or diagnostic.path, step.row, step.text) for step in diagnostic.because]
    source = sources.get(diagnostic.path) if diagnostic.fix else None
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "cost": _cost(diagnostic.cost),
        "confidence": diagnostic.confidence.value,
        "group": group,
        "message": diagnostic.message,
        "filename": file_of(diagnostic.path),
        **_cell(diagnostic.path),
        "location": _location(diagnostic.row, diagnostic.column),
        "end_location": _location(diagnostic.end_row, diagnostic.end_column),
        "fix": _fix(diagnostic.fix, source) if diagnostic.fix and source else None,
        "no_fix": diagnostic.no_fix,  # why there is none: docs/no-fix.md
        "noqa_row": diagnostic.noqa_rows[1],
        "url": None,  # the pages are part of the tool: `torchperf-lint explain CODE`
        "because": [
            {"filename": file_of(path), **_cell(path), "row": row, "message": text} for path, row, text in steps
        ],
        # The places to read in turn: evidence first, the finding last.
        "path": [*(f"{path}:{row}" for path, row, _ in steps), f"{diagnostic.path}:{diagnostic.row}"],
    }


def _failed(failure: Failure) -> dict[str, Any]:
    place = _location(failure.row or 1, failure.column or 1)
    return {
        "code": NOT_CHECKED,
        "name": NOT_CHECKED_NAME,
        "severity": Severity.ERROR.value,
        "cost": None,
        "confidence": Confidence.PROVEN.value,
        "group": None,
        "message": failure.reason,
        "filename": failure.path,
        "location": place,
        "end_location": place,
        "fix": None,
        "no_fix": None,
        "noqa_row": None,
        "url": None,
        "because": [],
        "path": [f"{failure.path}:{place['row']}"],
    }


def _cell(path: str) -> dict[str, int]:
    """The number of a notebook's cell, which the rows count in."""
    return {"cell": path.cell} if isinstance(path, CellPath) else {}


def _cost(cost: Cost | None) -> dict[str, str] | None:
    return None if cost is None else {"rate": cost.rate.value, "loses": cost.loss.value}


def _fix(fix: Fix, source: Source) -> dict[str, Any]:
    return {
        "applicability": _APPLICABILITY[fix.safety],
        "message": fix.message,
        "assumes": fix.assumes or None,
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
