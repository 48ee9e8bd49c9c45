"""Discovery of the files to lint."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.globs import matcher
from torchperf_lint.engine.names import why_no_python
from torchperf_lint.engine.replacing import UNFINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".hg", ".hypothesis", ".ipynb_checkpoints", ".mypy_cache", ".nox",
    ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", "__pycache__", "__pypackages__", "build",
    "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip
"""The default exclusions of discovery, as lines of a `.gitignore`."""

CACHE_FOLDER = ".torchperf_lint_cache"
"""The folder in a project's root that caches file symbols and reports between runs."""

SEARCHED = (".py", ".ipynb")
"""The endings of the files that a search of folders finds."""

_GLOB = frozenset("*?[]!/\\#")

_INTERPRETER = re.compile(r".*/lib(?:64)?/(?:python|pypy)\d+(?:\.\d+)?t?")
"""The folder of an interpreter's own library, as in an environment of conda, whatever the environment is called."""


class Discovery(NamedTuple):
    """The files to lint (sorted), what could not be read, and leftovers of killed runs."""

    files: tuple[str, ...]
    failures: tuple[Failure, ...]
    leftovers: tuple[str, ...] = ()


def discover(
    paths: Iterable[str],
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    root: str = ".",
    most_entries: int | None = None,
    *,
    forced: bool = False,
) -> Discovery:
    """The Python files (`.py`) and notebooks (`.ipynb`) under `paths`; the order of `paths` does not matter.

    A file that is named explicitly is always included, and fails if it is not Python. Folders are searched without what
    `.gitignore` files and `exclude` (lines as in a `.gitignore`, relative to `root`) exclude, and without the libraries
    of interpreters (`lib/python3.12`). A `.gitignore` above an explicitly named folder that excludes the folder itself
    does not count below it. Links to folders are not followed: their target is in the project at its own place, or is
    not the project's. A link to nothing that is named like a Python file or notebook fails. Each file is returned once.
    Where the folders hold more than `most_entries`, nothing is found.
    With `forced`, what a search of `root` would leave out is left out where it is named, too.
    """
    search = _Search(_Exclusion(exclude, os.path.abspath(root)), most_entries)
    for path in sorted({_tidy(path) for path in paths}):
        if not forced or left_out(path, exclude, root) is None:
            search.add(path)
    if search.entries_left is not None and search.entries_left < 0:
        return Discovery((), ())
    return Discovery(tuple(sorted(search.shown())), tuple(sorted(search.failures)), tuple(search.leftovers))


def left_out(path: str, exclude: Sequence[str] = DEFAULT_EXCLUDE, root: str = ".") -> str | None:
    """The file, or the folder around it, that a search of `root` leaves out; None if it would find the file."""
    top, place = os.path.abspath(root), os.path.abspath(path)
    inside = os.path.relpath(place, top)
    if inside.startswith(".."):
        return None
    exclusion, is_folder = _Exclusion(exclude, top), os.path.isdir(place)
    found = None
    while place != top:
        if exclusion.leaves_out(os.path.basename(place), place, is_folder) or _ignored(
            _ignores_above(place), place, is_folder
        ):
            found = os.path.relpath(place, top)
        place, is_folder = os.path.dirname(place), True
    return found


def _tidy(path: str) -> str:
    """Drop a leading `./` and trailing slashes, which would show in every reported path."""
    while path.startswith("./") and path.strip("./"):
        path = path[2:].lstrip("/")
    return path.rstrip("/") or path[:1]


class _Search:
    def __init__(self, exclusion: _Exclusion, most_entries: int | None) -> None:
        self.failures: list[Failure] = []
        self.leftovers: list[str] = []
        self.entries_left = most_entries
        self._exclusion = exclusion
        self._folders: set[str] = set()
        self._files: dict[str, tuple[bool, str]] = {}

    def shown(self) -> list[str]:
        return [path for _, path in self._files.values()]

    def add(self, path: str) -> None:
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            self._fail(path, error)
            return
        if stat.S_ISDIR(mode):
            place = os.path.abspath(path)
            above = _ignores_above(place)
            ignores = () if _ignored(above, place, True) else above
            self._walk("" if path == "." else path, os.path.realpath(path), place, ignores)
        elif stat.S_ISREG(mode):
            self._add_file(path)
        else:
            self.failures.append(Failure(path, None, None, "cannot be read: not a regular file"))

    def _add_file(self, path: str) -> None:
        try:
            reason = why_no_python(path)
        except OSError as error:
            self._fail(path, error)
            return
        if reason is not None:
            self.failures.append(Failure(path, None, None, reason))
        else:
            self._keep(path, os.path.realpath(path), os.path.islink(path))

    def _walk(self, shown: str, real: str, place: str, ignores: _Ignores) -> None:
        """`shown`, `real`, `place`: one folder's path as reported, without links, and absolute."""
        pending, named = [(shown, real, place, ignores)], place
        while pending:
            shown, real, place, ignores = pending.pop()
            if real in self._folders:
                continue
            self._folders.add(real)
            if place != named and _is_of_interpreter(place):
                continue
            try:
                with os.scandir(shown or ".") as entries:
                    inside = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self._fail(shown or ".", error)
                continue
            if self.entries_left is not None:
                self.entries_left -= len(inside)
                if self.entries_left < 0:
                    return
            within = _with_own(ignores, place, inside)
            if within is None:
                continue
            ignores = within
            for entry in inside:
                below, searched = os.path.join(place, entry.name), entry.name.endswith(SEARCHED)
                broken = _why_broken(entry) if searched else None
                try:
                    folder = entry.is_dir(follow_symlinks=False)
                    if not folder and not (searched and (broken is not None or entry.is_file())):
                        continue
                except OSError:  # a mark of an editor that is a link to itself
                    continue
                if folder and entry.name.startswith(UNFINISHED):
                    self.leftovers.append(below)
                    continue
                if self._exclusion.leaves_out(entry.name, below, folder) or _ignored(ignores, below, folder):
                    continue
                path, target = os.path.join(shown, entry.name), os.path.join(real, entry.name)
                if broken is not None:
                    self._fail(path, broken)
                elif folder:
                    pending.append((path, target, below, ignores))
                elif entry.is_symlink():
                    self._keep(path, os.path.realpath(path), True)
                else:
                    self._keep(path, target, False)

    def _keep(self, path: str, real: str, link: bool) -> None:
        # Of several paths to one file, a path without a link is shown, whatever the order of the search.
        self._files[real] = min((link, path), self._files.get(real, (True, path)))

    def _fail(self, path: str, error: OSError | ValueError) -> None:
        self.failures.append(unreadable(path, error))


def _why_broken(entry: os.DirEntry[str]) -> OSError | None:
    """Why a link leads to nothing; None for all else, and for `.#train.py`, by which Emacs marks an unsaved file."""
    if not entry.is_symlink() or entry.name.startswith(".#"):
        return None
    try:
        entry.stat()
    except OSError as error:
        return error
    return None


def unreadable(path: str, error: OSError | ValueError) -> Failure:
    """The failure for a file or folder that cannot be read."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return Failure(path, None, None, f"cannot be read: {reason}")


class _Exclusion:
    """The user's globs; plain names (all defaults are plain) are matched without importing pathspec."""

    def __init__(self, lines: Sequence[str], root: str) -> None:
        self._names = frozenset(line for line in lines if not _GLOB & set(line))
        globs = [line for line in lines if line not in self._names]
        self._globs = matcher(globs) if globs else None
        self._root = root

    def leaves_out(self, name: str, place: str, folder: bool) -> bool:
        return name in self._names or (
            self._globs is not None and _verdict(self._globs, self._root, place, folder) is True
        )


_Ignores = tuple[tuple[str, "Any"], ...]
"""The `.gitignore` files that apply in a folder, outermost first: each one's folder and spec."""

_EVERYTHING = re.compile(r"(?:[^\S\n]*(?:#[^\n]*)?\n)*\*\s*")
"""A `.gitignore` that excludes its whole folder, as caches and environments have; recognized without pathspec."""


def _ignores_above(place: str) -> _Ignores:
    """The specs of the folders around `place`, up to the top of its git repository if it is in one."""
    around = []
    folder = place
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return ()
        folder = parent
        around.append(folder)
    ignores: _Ignores = ()
    for folder in reversed(around):
        text = _own_text(folder)
        if text is not None:
            ignores = (*ignores, (folder, matcher(text.split("\n"))))
    return ignores


def _with_own(ignores: _Ignores, place: str, entries: Iterable[os.DirEntry[str]]) -> _Ignores | None:
    """The specs with the folder's own added; None if it excludes everything in the folder."""
    text = _own_text(place) if any(entry.name == ".gitignore" for entry in entries) else None
    if text is None:
        return ignores
    return None if _EVERYTHING.fullmatch(text) else (*ignores, (place, matcher(text.split("\n"))))


def stands_apart(folder: str) -> bool:
    """Whether the folder is not part of the project around it: by its name, or hidden and excluded by `.gitignore`s."""
    name = os.path.basename(folder)
    if name in DEFAULT_EXCLUDE or _is_of_interpreter(folder):
        return True
    if not name.startswith("."):
        return False
    return _EVERYTHING.fullmatch(_own_text(folder) or "") is not None or _ignored(_ignores_above(folder), folder, True)


def _is_of_interpreter(folder: str) -> bool:
    if _INTERPRETER.fullmatch(folder.replace(os.sep, "/")) is None:
        return False
    return any(os.path.exists(os.path.join(folder, each)) for each in ("os.py", "site-packages"))


def _own_text(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, ".gitignore"), encoding="utf-8-sig", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def _ignored(ignores: _Ignores, place: str, folder: bool) -> bool:
    """Whether the path is excluded; the innermost `.gitignore` with a matching line decides."""
    for base, spec in reversed(ignores):
        verdict = _verdict(spec, base, place, folder)
        if verdict is not None:
            return verdict
    return False


def _verdict(spec: Any, base: str, place: str, folder: bool) -> bool | None:
    """Whether the spec at `base` excludes a path (True), re-includes it (False) or does not match it (None)."""
    relative = os.path.relpath(place, base).replace(os.sep, "/")
    if relative.startswith("../"):
        return None
    verdict: bool | None = spec.check_file(relative + "/" if folder else relative).include
    return verdict
