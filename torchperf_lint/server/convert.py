"""Findings as what the protocol has: ranges, diagnostics, edits, and the text of a hover."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lsprotocol import types

from torchperf_lint.engine.findings import Safety, Severity
from torchperf_lint.report import worth
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchperf_lint.engine.findings import Diagnostic, Edit

NAME = "torchperf-lint"

_SEVERITIES = {
    Severity.ERROR.value: types.DiagnosticSeverity.Error,
    Severity.WARNING.value: types.DiagnosticSeverity.Warning,
    Severity.NOTE.value: types.DiagnosticSeverity.Information,
}
_WHOLE_ROW = 10_000


class Places:
    """Byte offsets of a source as positions of the protocol, whose columns count in units of the client's choice."""

    def __init__(self, source: Source, encoding: types.PositionEncodingKind | str | None) -> None:
        self._source = source
        self._encoding = types.PositionEncodingKind.Utf16 if encoding is None else encoding

    def position(self, offset: int) -> types.Position:
        """The position of a byte offset."""
        row = self._source.row(offset)
        before = self._source.utf8[self._source.line_starts[row - 1] : offset]
        if self._encoding == types.PositionEncodingKind.Utf8:
            units = len(before)
        elif self._encoding == types.PositionEncodingKind.Utf32:
            units = len(before.decode(errors="replace"))
        else:
            units = len(before.decode(errors="replace").encode("utf-16-le")) // 2
        return types.Position(row - 1, units)

    def range(self, start: int, end: int) -> types.Range:
        """The range of a byte span."""
        return types.Range(self.position(start), self.position(end))

    def edits(self, edits: Iterable[Edit]) -> list[types.TextEdit]:
        """Edits of bytes as edits of text."""
        return [types.TextEdit(self.range(each.start, each.end), each.content.decode()) for each in edits]


def diagnostic(found: Diagnostic, places: Places, uri_of: Callable[[str], str]) -> types.Diagnostic:
    """A finding; its evidence are the places that it is related to. `uri_of` tells the document of a path."""
    said = worth(found)
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(
                uri_of(step.path or found.path),
                types.Range(types.Position(step.row - 1, 0), types.Position(step.row - 1, _WHOLE_ROW)),
            ),
            step.text,
        )
        for step in found.because
    ]
    return types.Diagnostic(
        range=places.range(found.start, found.end),
        message=f"{found.message} ({said})" if said else found.message,
        severity=_SEVERITIES.get(found.severity, types.DiagnosticSeverity.Warning),
        code=found.code,
        source=NAME,
        related_information=related,
    )


def not_checked(row: int, column: int, reason: str) -> types.Diagnostic:
    """Why a text could not be checked, at the place of the error."""
    place = types.Range(types.Position(row - 1, column - 1), types.Position(row - 1, _WHOLE_ROW))
    return types.Diagnostic(place, f"not checked: {reason}", severity=types.DiagnosticSeverity.Information, source=NAME)


def title(found: Diagnostic) -> str:
    """What a quick fix is called; an unsafe one says so."""
    assert found.fix is not None
    unsafe = "unsafe, " if found.fix.safety is Safety.UNSAFE else ""
    return f"{found.fix.message[:1].upper()}{found.fix.message[1:]} ({unsafe}{found.code})"


def hover(found: Diagnostic, page: str) -> str:
    """A finding with its evidence, and the page of its rule, as Markdown."""
    said = worth(found)
    steps = [
        f"- {os.path.basename(step.path) + ', ' if step.path else ''}row {step.row}: {step.text}"
        for step in found.because
    ]
    evidence = "\n".join(steps)
    head = f"**{found.code}** {found.message}" + (f" ({said})" if said else "")
    return "\n\n".join(filter(None, (head, evidence, "---", page)))


def changes(before: Source, after: bytes, places: Places) -> list[types.TextEdit]:
    """The rows that differ between a source and the text that replaces it."""
    from difflib import SequenceMatcher

    from torchperf_lint.engine.findings import Edit

    old = before.utf8.splitlines(keepends=True)
    new = Source(before.path, after, before.encoding).utf8.splitlines(keepends=True)
    starts = [*before.line_starts[: len(old)], len(before.utf8)]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return places.edits(
        Edit(starts[a], starts[b], b"".join(new[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"
    )
