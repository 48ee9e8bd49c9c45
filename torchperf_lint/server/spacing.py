"""Rows between the functions of a text that is typed, so that what stands below a change keeps its rows.

The judge sees the text with these rows, which are empty comments. What rests on rows that have not moved need not be
worked out anew. Reports are told in the rows of the document.
"""

from __future__ import annotations

import ast
import bisect
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.units import units_of
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.engine.findings import Because, Diagnostic, Fix
    from torchperf_lint.engine.runner import FileReport

GAP = 40
"""Rows that a function may grow by before all rows are laid out anew."""

JOINED = 2
"""Functions that a change may join to the one above; more, as where it is in two places, are laid out anew."""

LARGEST = 500_000
"""Longer texts are left as they are: rows between thousands of functions would cost more than they save."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Segment(NamedTuple):
    """Rows that stay together: where they begin in the document, and in the spaced text (0-based)."""

    row: int
    spaced: int


class Spacing:
    """The spaced text of one document, through its changes."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._segments: list[_Segment] = []  # the last one is the end
        self._starts: list[tuple[int, int]] = []  # of the segments, in bytes: in the spaced text, and in the document
        self.text = b""

    def spaced(self, data: bytes) -> bytes:
        """The document has these bytes now; returns them with the rows between."""
        rows = data.splitlines(keepends=True)
        if rows != self._rows and not self._grow(rows):
            self._lay_out(data, rows)
        self._rows = rows
        self.text = self._joined()
        return self.text

    def _lay_out(self, data: bytes, rows: list[bytes]) -> None:
        begins = _begins(data, rows)
        places = [] if begins is None else [0, *begins, len(rows)]
        self._segments = [_Segment(row, row + number * GAP) for number, row in enumerate(places)]

    def _grow(self, rows: list[bytes]) -> bool:
        """Let the segments that have changed take another number of rows; returns whether there is room."""
        if not self._segments:
            return False
        old = self._rows
        shorter = min(len(old), len(rows))
        before = next((at for at in range(shorter) if old[at] != rows[at]), shorter)
        after = next((at for at in range(shorter - before) if old[-1 - at] != rows[-1 - at]), shorter - before)
        grown, begins = len(rows) - len(old), [each.row for each in self._segments[:-1]]
        first = max(bisect.bisect_right(begins, max(before - 1, 0)) - 1, 0)
        last = max(bisect.bisect_right(begins, max(len(old) - after - 1, before - 1, 0)) - 1, first)
        if last - first > JOINED:
            return False
        changed = self._segments[first]
        behind = [each._replace(row=each.row + grown) for each in self._segments[last + 1 :]]
        if changed.spaced + behind[0].row - changed.row > behind[0].spaced or _goes_on(rows[: behind[0].row]):
            return False
        self._segments = [*self._segments[: first + 1], *behind]
        return True

    def _joined(self) -> bytes:
        comment = b"#\r\n" if self._rows and self._rows[0].endswith(b"\r\n") else b"#\n"
        parts: list[bytes] = []
        self._starts = [(0, 0)]
        for segment, following in itertools.pairwise(self._segments):
            own = b"".join(self._rows[segment.row : following.row])
            between = following.spaced - segment.spaced - (following.row - segment.row)
            is_last = following is self._segments[-1]
            parts.append(own if is_last else own + comment * between)
            spaced, length = self._starts[-1]
            self._starts.append((spaced + len(parts[-1]), length + len(own)))
        return b"".join(parts) if self._segments else b"".join(self._rows)

    def row(self, spaced: int) -> int:
        """The row of the document for a row of the spaced text (both 1-based)."""
        if not self._segments:
            return spaced
        at = bisect.bisect_right(self._segments[:-1], spaced - 1, key=lambda each: each.spaced) - 1
        row = self._segments[at].row + spaced - 1 - self._segments[at].spaced
        return 1 + (row if at + 2 == len(self._segments) else min(row, self._segments[at + 1].row))

    def offset(self, spaced: int) -> int:
        """The same for a byte offset."""
        if not self._segments:
            return spaced
        at = bisect.bisect_right(self._starts[:-1], spaced, key=lambda each: each[0]) - 1
        begin, own = self._starts[at]
        return min(own + spaced - begin, self._starts[at + 1][1])


def can_be_spaced(data: bytes) -> bool:
    """Whether the text is such that bytes are its characters in UTF-8, and rows end in one way."""
    cookie = any(b"coding" in row for row in data.split(b"\n", 2)[:2])
    plain_ends = b"\r" not in data or data.count(b"\r") == data.count(b"\r\n") == data.count(b"\n")
    return not cookie and plain_ends and not data.startswith(b"\xef\xbb\xbf") and len(data) <= LARGEST


def _begins(data: bytes, rows: list[bytes]) -> list[int] | None:
    """The 0-based rows, behind the first one, where a definition ends, or begins with comments and space above it.

    None if the text cannot be parsed.
    """
    try:
        units = units_of(Source("", data).parse().body)
    except Unreadable:
        return None
    parts = sorted((row - 1, _defines(unit.nodes[0])) for unit in units for row in unit.rows)
    found = []
    for (_, defined), (row, defines) in itertools.pairwise([(0, False), *parts]):
        begin = row
        while begin and _is_comment(rows[begin - 1]):
            begin -= 1
        while begin and not rows[begin - 1].strip():
            begin -= 1
        if (defined or defines) and begin and not _goes_on(rows[:begin]):
            found.append(begin)
    return sorted(set(found))


def _is_comment(row: bytes) -> bool:
    """Whether a row above a definition is a comment, and surely not the end of a text of several rows."""
    return row.lstrip().startswith(b"#") and b'"' not in row and b"'" not in row


def _defines(node: ast.stmt) -> bool:
    return isinstance(node, _DEFINITIONS)


def _goes_on(rows: list[bytes]) -> bool:
    """Whether the last row that is not empty is continued by the next one."""
    last = next((each for each in reversed(rows) if each.strip()), b"")
    return last.rstrip(b"\r\n").endswith(b"\\")


def told(report: FileReport, spacing_of: Callable[[str | None], Spacing | None]) -> FileReport:
    """The report with the places of documents; `spacing_of` a path tells its spacing, None being the report's own."""
    own = spacing_of(None)

    def diagnostic(found: Diagnostic) -> Diagnostic:
        found = found._replace(because=tuple(_step(each, spacing_of(each.path)) for each in found.because))
        if own is None:
            return found
        first, last = found.noqa_rows
        return found._replace(
            row=own.row(found.row),
            end_row=own.row(found.end_row),
            start=own.offset(found.start),
            end=own.offset(found.end),
            noqa_rows=(own.row(first), own.row(last)),
            behind=None if found.behind is None else own.offset(found.behind),
            fix=None if found.fix is None else _fix(found.fix, own),
        )

    return report._replace(diagnostics=tuple(map(diagnostic, report.diagnostics)))


def _step(step: Because, spacing: Spacing | None) -> Because:
    return step if spacing is None else step._replace(row=spacing.row(step.row))


def _fix(fix: Fix, spacing: Spacing) -> Fix:
    edits = (each._replace(start=spacing.offset(each.start), end=spacing.offset(each.end)) for each in fix.edits)
    return fix._replace(edits=tuple(edits))
