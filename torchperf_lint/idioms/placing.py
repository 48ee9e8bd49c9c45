"""Edits of whole lines: insert them around a loop or at the top of a file, move them out of a loop, delete them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit
from torchperf_lint.idioms.conditions import is_for_every_run
from torchperf_lint.syntax.site import first_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.syntax.source import Source


def own_rows(model: Model, site: Site) -> tuple[int, int] | None:
    """The first and last line of the site's simple statement, if it shares neither with other code."""
    statement = model.statement_of(site.node)
    rows = (statement.lineno, statement.end_lineno or statement.lineno)
    alone = rows == site.rows and has_rows_to_itself(statement, model.source)
    return rows if alone and isinstance(statement, (ast.Expr, ast.Assign)) else None


def after(model: Model, hot_path: HotPath, line: str) -> Edit | None:
    """Insert a line directly after the hot loop, at its indentation; None if the loop shares its lines."""
    source, loop = model.source, hot_path.loop
    indent = None if loop is None else _indent(source, loop)
    if loop is None or indent is None:
        return None
    row, column = loop.end_lineno or loop.lineno, loop.end_col_offset or 0
    rest = source.line(row).encode()[column:].strip()
    if rest and not rest.startswith(b"#"):
        return None
    row = _last_row_of_body(source, row, len(indent))
    if row < len(source.line_starts):
        place = source.line_starts[row]
        return Edit(place, place, f"{indent}{line}{source.newline}".encode())
    place = len(source.utf8)
    return Edit(place, place, f"{source.newline}{indent}{line}".encode())


def before(model: Model, hot_path: HotPath, line: str) -> Edit | None:
    """Insert a line directly before the hot loop, at its indentation; None if the loop shares its line."""
    indent = None if hot_path.loop is None else _indent(model.source, hot_path.loop)
    if hot_path.loop is None or indent is None:
        return None
    place = model.source.line_starts[hot_path.loop.lineno - 1]
    return Edit(place, place, f"{indent}{line}{model.source.newline}".encode())


def beside(model: Model, statement: ast.stmt, lines: Sequence[str], *, behind: bool) -> Edit | None:
    """Insert lines before or after a statement, at its indentation; None if it shares its lines."""
    source, indent = model.source, _indent(model.source, statement)
    row = (statement.end_lineno or statement.lineno) + 1 if behind else statement.lineno
    if indent is None or not has_rows_to_itself(statement, source) or row > len(source.line_starts):
        return None
    place = source.line_starts[row - 1]
    return Edit(place, place, "".join(f"{indent}{line}{source.newline}" for line in lines).encode())


def lifted(model: Model, site: Site, hot_path: HotPath) -> tuple[Edit, ...] | None:
    """Move the site's one-line statement before the hot loop; None if that leaves the body empty."""
    rows, place = own_rows(model, site), model.place(site.node)
    if rows is None or rows[0] != rows[1] or len(place.block) < 2 or not site.tree.lossless:
        return None
    if hot_path.loop is None or place.parent is not hot_path.loop or place.field != "body":
        return None
    start, end = _rows(model.source, *rows)
    inserted = before(model, hot_path, model.source.utf8[start:end].decode().strip())
    return None if inserted is None else (inserted, Edit(start, end, b""))


def deleted(model: Model, site: Site) -> Edit | None:
    """Delete the site's one-line statement; None if that leaves a block empty, or deletes a comment."""
    rows = own_rows(model, site)
    block = model.place(site.node).block
    if rows is None or rows[0] != rows[1] or len(block) < 2 or not site.tree.lossless:
        return None
    if "#" in model.source.line(rows[0]):
        return None
    return Edit(*_rows(model.source, *rows), b"")


def removed(model: Model, site: Site, others: Sequence[Site] = ()) -> Edit | None:
    """Delete the site's statement, and an `if` about the accelerator that contains nothing else.

    `others` are sites whose statements are deleted, too. None if lines hold other code or a comment, or if the block
    would be empty.
    """
    gone = {model.statement_of(other.node) for other in others}
    return _without(model, model.statement_of(site.node), gone)


def _without(model: Model, statement: ast.stmt, gone: set[ast.stmt]) -> Edit | None:
    source, place = model.source, model.place_of(statement)
    if all(each is statement or each in gone for each in place.block):
        around = place.parent
        if not isinstance(around, ast.If) or around.orelse or not is_for_every_run(around.test):
            return None
        if place.field != "body" or model.place_of(around).field == "orelse":
            return None
        return _without(model, around, gone)
    rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    text = [source.line(row) for row in rows]
    before = text[0].encode()[: statement.col_offset]
    after = text[-1].encode()[statement.end_col_offset or 0 :]
    if before.strip() or after.strip() or any("#" in line for line in text):
        return None
    return Edit(*_rows(source, rows[0], rows[-1]), b"")


def at_module_level(model: Model, site: Site, line: str, names: set[str]) -> Edit | None:
    """Insert a line, and two empty ones, before the top-level statement around the site and the comments above it.

    Two empty lines also go above several lines. None if one of the names is not imported earlier at the
    top level.
    """
    return _at_top(model, site.rows[0], line, names)


def above_definitions(model: Model, lines: str, names: set[str], used: ast.stmt) -> Edit | None:
    """The same above the file's first function or class: one place for what several of them share.

    None where the statement that uses it stands further above.
    """
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    first = next((each for each in model.top.body if isinstance(each, definitions)), None)
    if first is None or used.lineno < first_row(first):
        return None
    return _at_top(model, first_row(first), lines, names)


def _at_top(model: Model, row: int, line: str, names: set[str]) -> Edit | None:
    source = model.source
    imported: set[str] = set()
    above_end = 0
    for statement in model.top.body:
        first = first_row(statement)
        if first <= row <= (statement.end_lineno or row):
            if not names <= imported:
                return None
            while first - 1 > above_end and source.line(first - 1).startswith("#"):
                first -= 1
            place = source.line_starts[first - 1]
            blank = next((rows for rows in range(2) if source.line(first - 1 - rows).strip()), 2)
            above = source.newline * (2 - blank if "\n" in line else 0)
            return Edit(place, place, f"{above}{line}{source.newline * 3}".encode())
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imported |= {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        above_end = statement.end_lineno or row
    return None


def import_line(model: Model, module: str) -> Edit | None:
    """Insert `import module` in order among the file's first imports; None if it has none at its top."""
    group: list[ast.Import | ast.ImportFrom] = []
    for statement in model.top.body:
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or is_future:
            continue
        if group and statement.lineno != (group[-1].end_lineno or group[-1].lineno) + 1:
            break
        group.append(statement)
    if not group or not all(has_rows_to_itself(each, model.source) for each in group):
        return None
    behind = [each for each in group if isinstance(each, ast.ImportFrom) or each.names[0].name > module]
    row = behind[0].lineno if behind else (group[-1].end_lineno or group[-1].lineno) + 1
    source = model.source
    place = source.line_starts[row - 1]
    return Edit(place, place, f"import {module}{source.newline}".encode())


def has_rows_to_itself(statement: ast.stmt, source: Source) -> bool:
    """Whether no other code is on the statement's lines."""
    before = source.line(statement.lineno)[: statement.col_offset]
    after = source.line(statement.end_lineno or statement.lineno).encode()[statement.end_col_offset or 0 :].strip()
    return not before.strip() and (not after or after.startswith(b"#"))


def _rows(source: Source, first: int, last: int) -> tuple[int, int]:
    """The offsets of lines, with their newlines; with the newline before them if the file ends without one."""
    start = source.line_starts[first - 1]
    if last < len(source.line_starts):
        return start, source.line_starts[last]
    before = len(source.newline.encode()) if start and not source.utf8.endswith((b"\n", b"\r")) else 0
    return start - before, len(source.utf8)


def _indent(source: Source, loop: ast.stmt) -> str | None:
    indent = source.line(loop.lineno)[: loop.col_offset]
    return None if indent.strip() else indent


def _last_row_of_body(source: Source, row: int, column: int) -> int:
    """The last line of a block that ends in `row`, including comments below indented deeper than `column`."""
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
