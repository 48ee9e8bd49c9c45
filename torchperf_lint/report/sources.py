"""The sources of diagnostics, each decoded once, and the diffs of edits."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_lint.engine.findings import Edit


class Sources:
    """A cache of one source; findings are sorted by path, so one is enough."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        """`read` gives the bytes of a linted file or raises OSError."""
        self._read = read
        self._path: str | None = None
        self._source: Source | None = None

    def get(self, path: str) -> Source | None:
        """The source of a path, or None where the file is gone or can no longer be read."""
        if path != self._path:
            self._path = path
            try:
                self._source = Source(path, self._read(path))
            except (OSError, Unreadable):
                self._source = None
        return self._source


def unified_diff(before: str, after: str, path: str) -> Iterator[str]:
    """The lines of a unified diff that `patch` can apply; a carriage return before a line end is kept."""
    from difflib import unified_diff as diff

    name = _quoted(path)
    # Not splitlines(): for `patch`, and for Python, a form feed does not end a line.
    for line in diff(list(io.StringIO(before)), list(io.StringIO(after)), name, name):
        yield line.removesuffix("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _quoted(path: str) -> str:
    """A path as written in a diff: quoted if it has control characters or is no text, as git writes and reads it.

    A tab behind it tells `patch` that a blank does not end it.
    """
    if any(each < " " or each in '\x7f"' or "\udc80" <= each <= "\udcff" for each in path):
        data = os.fsencode(path)
        escaped = (chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:03o}" for each in data)
        path = f'"{"".join(escaped)}"'
    return f"{path}\t" if " " in path else path


def edit_diff(source: Source, edits: Sequence[Edit]) -> Iterator[str]:
    """The lines that edits remove (`- old`) and add (`+ new`), hunk by hunk, without headings."""
    from difflib import ndiff

    for first, last, group in _hunks(source, edits):
        start = source.line_starts[first - 1]
        end = source.line_starts[last] if last < len(source.line_starts) else len(source.utf8)
        text = source.utf8[start:end]
        changed = text
        for edit in reversed(group):
            changed = changed[: edit.start - start] + edit.content + changed[edit.end - start :]
        old, new = (each.decode(errors="replace").splitlines() for each in (text, changed))
        yield from (line for line in ndiff(old, new) if line[0] in "+-")


def _hunks(source: Source, edits: Sequence[Edit]) -> Iterator[tuple[int, int, list[Edit]]]:
    """Edits grouped by touching rows, with the first and last row of each group."""
    group: list[Edit] = []
    first = last = 0
    for edit in sorted(edits):
        row, end_row = source.row(edit.start), source.row(edit.end)
        if group and row > last:
            yield first, last, group
            group = []
        if not group:
            first, last = row, end_row
        group.append(edit)
        last = max(last, end_row)
    if group:
        yield first, last, group
