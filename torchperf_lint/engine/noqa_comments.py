"""Writes `# noqa` comments for findings: nothing but comments is added, and the program's tree stays as it is."""

from __future__ import annotations

import ast
import io
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.engine.registry import UNUSED_SUPPRESSION
from torchperf_lint.engine.suppress import Suppressions
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.engine.findings import Diagnostic


class Commented(NamedTuple):
    """A file with comments: its bytes, the number of silenced findings, and those that no comment can silence."""

    data: bytes
    silenced: int
    left: tuple[Diagnostic, ...]


def with_noqa(path: str, data: bytes, found: Sequence[Diagnostic]) -> Commented:
    """The bytes of a file with a comment for each finding, at the end of its row.

    Where that row ends in a string or in a backslash, the comment stands at the end of the nearest row of the statement
    that takes one. Codes join those of a `# noqa` that is there. An unused suppression gets no comment: it has to go.
    """
    try:
        source = Source(path, data)
        open_rows = set(_rows_that_take_comments(source.text))
    except Unreadable:
        return Commented(data, 0, tuple(found))
    suppressions = Suppressions(source)
    codes: dict[int, set[str]] = {}
    placed: list[Diagnostic] = []
    for each in found:
        row = _row_for(each, open_rows) if source.editable and each.code != UNUSED_SUPPRESSION else None
        if row is not None:
            codes.setdefault(row, set()).add(each.code)
            placed.append(each)
    if not placed:
        return Commented(data, 0, tuple(found))
    utf8 = source.utf8
    for row in sorted(codes, reverse=True):
        edit = _edit(row, sorted(codes[row]), source, suppressions)
        utf8 = utf8[: edit.start] + edit.content + utf8[edit.end :]
    done = source.encode(utf8)
    after = Source(path, done)
    if not _same_program(source, after):
        return Commented(data, 0, tuple(found))
    silent = Suppressions(after)
    silenced = {id(each) for each in placed if silent.silencing(each) is not None}
    return Commented(done, len(silenced), tuple(each for each in found if id(each) not in silenced))


def _row_for(diagnostic: Diagnostic, open_rows: set[int]) -> int | None:
    """The row for the comment: the finding's own if possible, where flake8 looks for it; else one behind, or before."""
    first, last = diagnostic.noqa_rows
    own = min(max(diagnostic.row, first), last)
    rows = (*range(own, last + 1), *range(own - 1, first - 1, -1))
    return next((row for row in rows if row in open_rows), None)


def _edit(row: int, codes: Sequence[str], source: Source, suppressions: Suppressions) -> Edit:
    """The insertion of codes into the row's `# noqa`, or of a comment at the row's end."""
    joined = suppressions.codes_at(row)
    if joined is not None:
        place, separator = joined
        return Edit(place, place, b"".join(separator + code.encode() for code in codes))
    start = source.line_starts[row - 1]
    line = source.utf8[start : source.line_starts[row] if row < len(source.line_starts) else len(source.utf8)]
    line = line.rstrip(b"\r\n")
    blanks = len(line) - len(line.rstrip(b" "))
    place = start + len(line)
    return Edit(place, place, b" " * max(0, 2 - blanks) + f"# noqa: {', '.join(codes)}".encode())


def _rows_that_take_comments(text: str) -> Iterator[int]:
    """The rows whose end is neither in a string nor behind a backslash."""
    import tokenize

    begins, ends = (
        {getattr(tokenize, f"{kind}STRING_{side}", None) for kind in "FT"} - {None} for side in ("START", "END")
    )
    inside = 0  # an f-string has tokens of its own since Python 3.12
    try:
        for token in tokenize.generate_tokens(io.StringIO(re.sub("\r\n?", "\n", text)).readline):
            inside += (token.type in begins) - (token.type in ends)
            if token.type in (tokenize.NEWLINE, tokenize.NL) and not inside:
                yield token.start[0]
    except (tokenize.TokenError, SyntaxError):
        return


def _same_program(before: Source, after: Source) -> bool:
    try:
        return ast.dump(before.parse()) == ast.dump(after.parse())
    except (Unreadable, RecursionError):
        return False
