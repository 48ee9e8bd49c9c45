"""Source code on a page: the rows around a finding with its expression marked, and what a fix changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import printable
from torchperf_lint.report.elements import join, tag
from torchperf_lint.report.sources import edit_diff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.findings import Diagnostic, Edit
    from torchperf_lint.report.elements import Markup
    from torchperf_lint.syntax.source import Source

AROUND = 2
"""Rows above and below a finding that show where it stands."""

MOST_ROWS = 12
"""A longer statement is cut after this many rows."""

MOST_COLUMNS = 400
"""A longer line is cut around the finding: it would take a page."""


def code(diagnostic: Diagnostic, source: Source) -> Markup:
    """The rows around a finding, without the indentation that they share, its expression marked."""
    last = min(diagnostic.end_row, diagnostic.row + MOST_ROWS - 1)
    first, end = max(1, diagnostic.row - AROUND), min(len(source.line_starts), last + AROUND)
    numbered = [(row, source.line(row).rstrip()) for row in range(first, end + 1)]
    while numbered[-1][0] > last and not numbered[-1][1]:
        numbered.pop()
    while numbered[0][0] < diagnostic.row and not numbered[0][1]:
        del numbered[0]
    common = _common_indentation([line for _, line in numbered])
    rows = []
    for row, line in numbered:
        text = _marked(diagnostic, row, line, common) if diagnostic.row <= row <= last else _text(line[common:])
        about = "found" if diagnostic.row <= row <= last else None
        rows.append(tag("span", tag("i", str(row)), tag("code", text), class_=about))
    if last < diagnostic.end_row:
        rows.insert(last - numbered[0][0] + 1, tag("span", tag("i"), tag("code", "...")))
    return tag("div", *rows, class_="code", tabindex=0)


def _common_indentation(lines: Sequence[str]) -> int:
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line]
    least, most = min(indents, default=""), max(indents, default="")
    return next((at for at, pair in enumerate(zip(least, most, strict=False)) if pair[0] != pair[1]), len(least))


def _marked(diagnostic: Diagnostic, row: int, line: str, common: int) -> Markup:
    start = diagnostic.column - 1 if row == diagnostic.row else len(line) - len(line.lstrip())
    end = diagnostic.end_column - 1 if row == diagnostic.end_row else len(line)
    first = common if len(line) <= MOST_COLUMNS else max(common, start - MOST_COLUMNS // 4)
    last = min(max(len(line), end), first + MOST_COLUMNS)
    before, inside, after = line[first:start], line[start : min(end, last)], line[max(start, end) : last]
    head, tail = "..." if first > common else "", "..." if last < len(line) else ""
    return join([head, printable(before), tag("mark", printable(inside)), printable(after), tail])


def _text(line: str) -> str:
    return printable(line if len(line) <= MOST_COLUMNS else f"{line[:MOST_COLUMNS]}...")


def difference(source: Source, edits: Sequence[Edit]) -> Markup:
    """What edits remove and add, line by line, without the indentation that the lines share."""
    lines = list(edit_diff(source, edits))
    common = _common_indentation([line[2:] for line in lines])
    rows = [
        tag("ins" if line[0] == "+" else "del", tag("i", line[0]), tag("code", _text(line[2 + common :])))
        for line in lines
    ]
    return tag("div", *rows, class_="code diff", tabindex=0)
