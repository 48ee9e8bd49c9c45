"""The lines that differ from a commit, as git tells them.

git is run as a process of its own, with nothing of the user's configuration that changes the form of its output.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.names import is_notebook

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Diagnostic

_DIFF = (
    "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--text", "--unified=0",
    "--find-renames", "--ignore-submodules=none", "--submodule=diff", "--diff-filter=d",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip

_PLACES = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")

_FILE = re.compile(rb'\+\+\+ (?:"b/(?P<quoted>(?:[^"\\]|\\.)*)"|b/(?P<plain>[^\t\n]*))\t?')
_HUNK = re.compile(rb"@@ -(?P<old>\d+)(?:,(?P<gone>\d+))? \+(?P<row>\d+)(?:,(?P<rows>\d+))? @@")
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))


class NoChanges(ValueError):
    """git cannot say what has changed; the message is one line for the user."""


class _NoRepository(NoChanges):
    """There is no repository around a folder."""


class Changes(NamedTuple):
    """What differs from a commit: spans of rows by file, and the files that git tracks. Paths are from the top."""

    top: str
    rows: dict[str, tuple[tuple[int, int], ...]]
    tracked: frozenset[str]

    def touch(self, path: str) -> bool:
        """Whether a file has changed lines."""
        rows = self._rows_of(path)
        return rows is None or bool(rows)

    def concern(self, diagnostic: Diagnostic, data: bytes) -> bool:
        """Whether a row of the finding or of its statement has changed; `data` is the file's content.

        Rows of a notebook are not those of its file, so it has changed as a whole.
        """
        rows = self._rows_of(diagnostic.path)
        if rows is None or is_notebook(diagnostic.path):
            return rows is None or bool(rows)
        first = min(diagnostic.row, diagnostic.noqa_rows[0])
        last = max(diagnostic.end_row, diagnostic.noqa_rows[1])
        if b"\r" in data:
            first, last = _as_git_counts(first, last, data)
        return any(begin <= last and first <= end for begin, end in rows)

    def _rows_of(self, path: str) -> tuple[tuple[int, int], ...] | None:
        """The spans of changed rows; None for a file that git does not track, which is new as a whole."""
        place = os.path.relpath(os.path.realpath(path), self.top).replace(os.sep, "/")
        if place in self.rows:
            return self.rows[place]
        return () if place in self.tracked or self._is_in_submodule(place) else None

    def _is_in_submodule(self, place: str) -> bool:
        parts = place.split("/")
        return any("/".join(parts[:end]) in self.tracked for end in range(1, len(parts)))


def changes_since(commit: str, folder: str, paths: Iterable[str] = ()) -> Changes:
    """What differs on disk from where HEAD left `commit`, in the repository around a folder or file.

    Where there is none, the folder may be around the repositories of the `paths`: then it is what differs in these. In
    a repository around all paths, those of another one inside it are untracked unless it is a submodule.
    Without a common commit, as in a shallow clone, it is what differs from `commit` itself. Raise NoChanges where there
    is no git, no repository or no such commit.
    """
    try:
        return _changes_in(_top_around(folder), commit)
    except _NoRepository:
        folders = dict.fromkeys(map(_folder_of, paths))
        if len(folders) < 2:
            raise
    tops = dict.fromkeys(map(_top_around, folders))
    found = [_changes_in(top, commit, f" in {top}") for top in tops]
    around = os.path.realpath(folder)
    rows: dict[str, tuple[tuple[int, int], ...]] = {}
    tracked: set[str] = set()
    for each in found:
        inside = os.path.relpath(each.top, around).replace(os.sep, "/")
        rows |= {f"{inside}/{name}": spans for name, spans in each.rows.items()}
        tracked.update(f"{inside}/{name}" for name in each.tracked)
    return Changes(around, rows, frozenset(tracked))


def _folder_of(path: str) -> str:
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _top_around(path: str) -> str:
    """The top of the repository around a folder or file."""
    folder = _folder_of(path)
    done = _git(["rev-parse", "--show-toplevel"], folder)
    if done.returncode:
        raise _NoRepository(f"git finds no repository around {folder}: {_said(done)}")
    return os.fsdecode(done.stdout.rstrip(b"\n"))


def _changes_in(top: str, commit: str, where: str = "") -> Changes:
    """What differs in one repository; `where` is told of a commit that it does not have."""
    known = None if commit.startswith("-") else _git(["rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"], top)
    if known is None or known.returncode:
        raise NoChanges(f"git knows no commit `{commit}`{where}")
    since = os.fsdecode(known.stdout.strip())
    base = _git(["merge-base", since, "HEAD"], top)
    if not base.returncode:
        since = os.fsdecode(base.stdout.strip())
    diff = _told([*_DIFF, since, "--"], top, f"git cannot compare with `{commit}`")
    tracked = _told(["ls-files", "-z", "--full-name"], top, "git cannot list its files")
    names = frozenset(os.fsdecode(each) for each in tracked.split(b"\0") if each)
    return Changes(os.path.realpath(top), _rows_in(diff.split(b"\n")), names)


def _told(arguments: Sequence[str], folder: str, otherwise: str) -> bytes:
    """The output of git; raise NoChanges with what it says where it fails."""
    done = _git(arguments, folder)
    if done.returncode:
        raise NoChanges(f"{otherwise}: {_said(done)}")
    return done.stdout


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    said = os.fsdecode(done.stderr).strip().splitlines()
    return said[-1].removeprefix("fatal: ") if said else f"exit status {done.returncode}"


def _git(arguments: Sequence[str], folder: str) -> subprocess.CompletedProcess[bytes]:
    settings = {"LC_ALL": "C", "LANGUAGE": "", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat"}
    # In a hook they may be relative to the folder that the hook runs in.
    places = {name: os.path.abspath(os.environ[name]) for name in _PLACES if os.environ.get(name)}
    try:
        return subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=folder,
            env={**os.environ, **places, **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise NoChanges(f"git cannot be run: {reason}") from None


def _rows_in(diff: Iterable[bytes]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The spans of new rows by file; of submodules, git shows rows around them whatever it is told."""
    found: dict[str, list[tuple[int, int]]] = {}
    spans: list[tuple[int, int]] = []
    row = old = new = 0  # the next new row of a hunk, and the lines that are left of it, which may look like anything
    for line in diff:
        if old or new:
            if line.startswith(b"+"):
                first = spans.pop()[0] if spans and spans[-1][1] == row - 1 else row
                spans.append((first, row))
            is_both = not line or line.startswith(b" ")  # a setting of git drops the blank before nothing
            is_new, is_old = is_both or line.startswith(b"+"), is_both or line.startswith(b"-")
            row, new, old = row + is_new, new - is_new, old - is_old
        elif hunk := _HUNK.match(line):
            row = int(hunk["row"])
            old, new = (1 if count is None else int(count) for count in hunk.group("gone", "rows"))
        elif name := _FILE.fullmatch(line):
            plain = name["plain"] if name["quoted"] is None else _ESCAPED.sub(_unescaped, name["quoted"])
            spans = found.setdefault(os.fsdecode(plain), [])
    return {name: tuple(spans) for name, spans in found.items()}


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes([int(code, 8) if len(code) == 3 else _ESCAPES[code[0]]])


def _as_git_counts(first: int, last: int, data: bytes) -> tuple[int, int]:
    """Two rows as git numbers them: to it a lone carriage return ends no line."""
    lines = data.splitlines(keepends=True)  # of bytes: at Python's line ends
    before = sum(line.endswith(b"\n") for line in lines[: first - 1])
    return before + 1, before + 1 + sum(line.endswith(b"\n") for line in lines[first - 1 : last - 1])
