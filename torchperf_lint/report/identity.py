"""What names a finding and its file for other programs: paths below a folder, groups by file, fingerprints."""

from __future__ import annotations

import collections
import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import CellPath, file_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.findings import Diagnostic, Failure
    from torchperf_lint.report.sources import Sources

STANDARD_INPUT = "-"


class OfFile(NamedTuple):
    """All that is said of one file."""

    path: str
    diagnostics: list[Diagnostic]
    failures: list[Failure]


def by_file(diagnostics: Iterable[Diagnostic], failures: Iterable[Failure]) -> list[OfFile]:
    """Findings and failures by file, in the order of the findings; files with failures only come last."""
    groups: dict[str, OfFile] = {}
    for each in diagnostics:
        path = file_of(each.path)
        groups.setdefault(path, OfFile(path, [], [])).diagnostics.append(each)
    for failure in failures:
        path = file_of(failure.path)
        groups.setdefault(path, OfFile(path, [], [])).failures.append(failure)
    return list(groups.values())


def below(path: str, folder: str) -> str | None:
    """The path relative to a folder, with slashes; None where it lies outside. A cell has the path of its notebook."""
    try:
        relative = os.path.relpath(file_of(path), folder)
    except ValueError:  # another drive
        return None
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        return None
    return relative.replace(os.sep, "/")


def absolute(path: str) -> str:
    """The absolute path, of a cell's notebook too; standard input has none and keeps its name."""
    return path if path == STANDARD_INPUT else os.path.abspath(file_of(path))


class Region(NamedTuple):
    """Where a finding begins and ends in its file; both from 1."""

    row: int
    column: int
    end_row: int
    end_column: int


def region_in_file(diagnostic: Diagnostic) -> Region:
    """The finding's region; the beginning of the file in a notebook, whose cells count rows of their own."""
    if isinstance(diagnostic.path, CellPath):
        return Region(1, 1, 1, 1)
    return Region(diagnostic.row, diagnostic.column, diagnostic.end_row, diagnostic.end_column)


def row_in_file(path: str, row: int) -> int:
    """The row of a file or of a cell as one of the file, as for `region_in_file`."""
    return 1 if isinstance(path, CellPath) else row


def well_formed(text: str) -> str:
    """`text` with a replacement for each lone surrogate, which strict readers of JSON and XML refuse."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Fingerprints:
    """Names of findings that stay the same where lines move: rule, path, text of the rows, ordinal among equals."""

    def __init__(self, sources: Sources) -> None:
        """`sources` has the rows of the findings."""
        self._sources = sources
        self._equals: collections.Counter[str] = collections.Counter()

    def of(self, diagnostic: Diagnostic, path: str) -> str:
        """The fingerprint of the next finding, in a file that is called `path`; to be asked once for each."""
        source = self._sources.get(diagnostic.path)
        if source is not None and diagnostic.end_row <= len(source.line_starts):
            rows = [source.line(row).strip() for row in range(diagnostic.row, diagnostic.end_row + 1)]
        else:
            rows = [diagnostic.message]
        key = "\0".join((diagnostic.code, path, *rows))
        self._equals[key] += 1
        return digest(key, str(self._equals[key]))


def digest(*parts: str) -> str:
    """32 hexadecimal digits that stand for these texts."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]
