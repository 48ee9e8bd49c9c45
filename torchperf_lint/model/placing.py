"""Where lines of code go around a loop: before it, after it, out of its body."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit
from torchperf_lint.syntax.site import first_row

if TYPE_CHECKING:
    from torchperf_lint.syntax.source import Source


def after(source: Source, loop: ast.stmt, line: str) -> Edit | None:
    """Insert a line directly after the loop, at its indentation; None where the loop shares its rows."""
    indent = _indent(source, loop)
    row, column = loop.end_lineno or loop.lineno, loop.end_col_offset or 0
    rest = source.line(row).encode()[column:].strip()
    if indent is None or (rest and not rest.startswith(b"#")):
        return None
    row = _last_row_of_body(source, row, len(indent))
    if row < len(source.line_starts):
        place = source.line_starts[row]
        return Edit(place, place, f"{indent}{line}{source.newline}".encode())
    place = len(source.utf8)
    return Edit(place, place, f"{source.newline}{indent}{line}".encode())


def before(source: Source, loop: ast.stmt, line: str) -> Edit | None:
    """Insert a line directly before the loop, at its indentation; None where the loop shares its row."""
    indent = _indent(source, loop)
    if indent is None:
        return None
    place = source.line_starts[loop.lineno - 1]
    return Edit(place, place, f"{indent}{line}{source.newline}".encode())


def lifted(source: Source, loop: ast.stmt, row: int) -> tuple[Edit, ...] | None:
    """Move a row of the loop's body in front of the loop."""
    start = source.line_starts[row - 1]
    end = source.line_starts[row] if row < len(source.line_starts) else len(source.utf8)
    inserted = before(source, loop, source.utf8[start:end].decode().strip())
    return None if inserted is None else (inserted, Edit(start, end, b""))


def deleted(source: Source, row: int) -> Edit | None:
    """Take a row away that holds one statement alone; None where a comment would go with it."""
    if "#" in source.line(row):
        return None
    end = source.line_starts[row] if row < len(source.line_starts) else len(source.utf8)
    return Edit(source.line_starts[row - 1], end, b"")


def at_module_level(source: Source, body: list[ast.stmt], row: int, line: str, names: set[str]) -> Edit | None:
    """Insert a line, and two empty ones, before the top-level statement around a row and the comments above that.

    None where one of the names is not imported at the top level before.
    """
    imported: set[str] = set()
    for statement in body:
        first = first_row(statement)
        if first <= row <= (statement.end_lineno or row):
            if not names <= imported:
                return None
            while first > 1 and source.line(first - 1).startswith("#"):
                first -= 1
            place = source.line_starts[first - 1]
            return Edit(place, place, f"{line}{source.newline * 3}".encode())
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imported |= {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    return None


def _indent(source: Source, loop: ast.stmt) -> str | None:
    indent = source.line(loop.lineno)[: loop.col_offset]
    return None if indent.strip() else indent


def _last_row_of_body(source: Source, row: int, column: int) -> int:
    """The last row of a block that ends in `row`, with the comments below that are indented deeper than `column`."""
    last = row
    while row < len(source.line_starts):
        row += 1
        line = source.line(row)
        text = line.lstrip(" \t")
        if text.startswith("#") and len(line) - len(text) > column:
            last = row
        elif text.strip():
            break
    return last
