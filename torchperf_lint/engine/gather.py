"""The project around what is linted: its root, its files, and their facts, kept between runs by content."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.files import CACHE_FOLDER, discover
from torchperf_lint.model.project.facts import Facts, facts_of
from torchperf_lint.model.project.program import Program
from torchperf_lint.syntax.identity import digest_of, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.knowledge.hints import Hints

REPOSITORIES = (".git", ".hg")
"""What lies in the root of a repository."""

MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
"""What lies in the root of a project outside repositories, and in parts of projects, too."""

MOST_FILES = 20_000
"""A folder with more Python files than this is no project: only what is linted is looked at."""

MOST_ENTRIES = 500_000
"""The same for files and folders of any kind, less those that are left out."""

MOST_UNKEPT = 25_000_000
"""Bytes of Python files, besides those that are linted, that are read for a run that may not keep what it learns."""

_FORMAT = 4
_LARGEST = 20_000_000
_LARGEST_STORE = 500_000_000
_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time of change tells it from any later content, on the coarsest of clocks."""


class Snapshot(NamedTuple):
    """The files of a project and what is known of them: plain data that can be sent to other processes."""

    root: str
    facts: dict[str, Facts]
    shown: dict[str, str]  # how the linted files are named to the user
    here: str  # the folder whose files are named to the user without it
    hints: Hints

    def program(self) -> Program:
        """The project, ready to be asked."""

        def shown(key: str) -> str:
            named = self.shown.get(key)
            return key.removeprefix(self.here) if named is None else named

        return Program(self.facts, self.root, self.hints, _read, shown)


class Projects:
    """The projects around files that come one by one, each looked at when its first file comes."""

    def __init__(self, hints: Hints, cache: str | None) -> None:
        """`hints` and `cache` are `gather`'s."""
        self._hints = hints
        self._cache = cache
        self._known: dict[str, tuple[Snapshot, Program]] = {}

    def around(self, path: str) -> Program:
        """The project that the file belongs to, whatever files came before it."""
        key = key_of(path)
        root = root_of([key])
        if root not in self._known:
            snapshot = _look_at(root, {}, self._hints, self._cache)
            self._known[root] = snapshot, snapshot.program()
        snapshot, program = self._known[root]
        left_out = None if key in snapshot.facts else _looked_up(key, None)
        if left_out is None:
            return program
        return snapshot._replace(facts={**snapshot.facts, key: left_out.facts}).program()


def gather(linted: Iterable[str], hints: Hints, cache: str | None = None) -> Snapshot:
    """Look at the whole project that the files belong to, as far as it lies on disk and is not left out.

    Left out is what `.gitignore` files name and what discovery passes over by itself; what the user excludes is not
    linted, and still runs. `cache` is the folder to keep facts in, CACHE_FOLDER for that in the project's root (None:
    nothing is read or written); a folder that cannot be used costs only time.
    """
    shown = {key_of(path): path for path in linted}
    return _look_at(root_of(shown), shown, hints, cache)


def _look_at(root: str, shown: dict[str, str], hints: Hints, cache: str | None) -> Snapshot:
    absolute = any(os.path.isabs(path) for path in shown.values())
    here = "" if absolute else key_of(os.curdir).rstrip("/") + "/"
    store = None if cache is None else _Store(root, cache)
    kept = {} if store is None else store.read()
    found = _files_below(root)
    if store is None and _size(found - shown.keys()) > MOST_UNKEPT:
        found = set()
    entries: dict[str, _Entry] = {}
    for key in sorted(found | shown.keys()):
        entry = _looked_up(key, kept.get(key))
        if entry is not None:
            entries[key] = entry
    if store is not None and found:
        store.write({key: entry for key, entry in entries.items() if key in found})
    return Snapshot(root, {key: entry.facts for key, entry in entries.items()}, shown, here, hints)


def root_of(keys: Iterable[str]) -> str:
    """The root of the project that holds all the files.

    That is the root of the innermost repository around them. Outside repositories it is the outermost folder around
    them with a marker of a project, so that a part of it with a marker of its own has the same root as the whole.
    Without a marker it is the current folder, if they lie below it, else the folder that holds them all; folders
    that are packages are left upwards.
    """
    here = key_of(os.curdir)
    folders = {os.path.dirname(key) for key in keys}
    try:
        common = os.path.commonpath(folders).replace(os.sep, "/") if folders else here
    except ValueError:  # on several drives
        return here
    around = _folders_around(common)
    for marks in (REPOSITORIES, MARKERS):
        marked = [folder for folder in around if any(os.path.exists(os.path.join(folder, mark)) for mark in marks)]
        if marked:
            return marked[0] if marks is REPOSITORIES else marked[-1]
    root = here if here in around else common
    while os.path.exists(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    return root


def _folders_around(folder: str) -> list[str]:
    """The folder and those that hold it, as far as they can be a project's: not the user's home, nor all there is."""
    found = []
    while _may_be_root(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _may_be_root(folder: str) -> bool:
    return folder not in (os.path.dirname(folder), key_of(os.path.expanduser("~")))


def _files_below(root: str) -> set[str]:
    """The Python files of the project; none if its root holds too much to be one."""
    if not _may_be_root(root):
        return set()
    found = discover([root], root=root, most_entries=MOST_ENTRIES).files
    if len(found) > MOST_FILES:
        return set()
    return {key_of(path) if os.path.islink(path) else path.replace(os.sep, "/") for path in found}


def _size(keys: Iterable[str]) -> int:
    size = 0
    for key in keys:
        with contextlib.suppress(OSError):
            size += os.stat(key).st_size
    return size


def _read(key: str) -> bytes:
    with open(key, "rb") as file:
        return file.read()


# -- facts kept on disk --------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """The facts of a file, with what its status was when they were taken: size, times of change."""

    status: tuple[int, int, int] | None  # None: it had changed too shortly before for its times to tell
    facts: Facts


def _looked_up(key: str, kept: _Entry | None) -> _Entry | None:
    """The entry of a file as it is now; None if it cannot be read."""
    try:
        now = os.stat(key)
        status = (now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        if kept is not None and kept.status == status:
            return kept
        if now.st_size > _LARGEST:
            return None
        data = _read(key)
    except OSError:
        return None
    known = kept is not None and kept.facts.digest == digest_of(data)
    settled = max(status[1:]) + _SETTLED < time.time_ns()
    return _Entry(status if settled else None, kept.facts if kept is not None and known else facts_of(data))


class _Store:
    """The file that keeps the facts of a project: read and replaced as a whole, and believed in nothing but facts.

    Whatever else lies in its place is no store. Who writes last wins, for all write the same.
    """

    def __init__(self, root: str, cache: str) -> None:
        self._root = root
        own = cache == CACHE_FOLDER
        self._folder = os.path.join(root, cache)
        # A folder in the project may come with it, and a link there lead anywhere; one that the user names is theirs.
        self._usable = not (own and os.path.islink(self._folder))
        self._path = os.path.join(self._folder, "facts.json" if own else f"facts-{digest_of(root.encode())[:16]}.json")
        self._kept: dict[str, _Entry] = {}
        self._read_at: tuple[int, int] | None = None

    def read(self) -> dict[str, _Entry]:
        """What an earlier run has kept; a store that is torn, foreign or out of reach holds nothing."""
        if not self._usable:
            return {}
        self._read_at = self._changed()
        try:
            self._kept = self._parsed()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError):
            self._kept = {}
        return self._kept

    def _parsed(self) -> dict[str, _Entry]:
        import json

        status = os.lstat(self._path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_STORE:
            return {}
        document = json.loads(_read(self._path))
        if document["stamp"] != _stamp():
            return {}
        return {f"{self._root}/{place}": _entry(plain) for place, plain in document["files"].items()}

    def write(self, entries: dict[str, _Entry]) -> None:
        """Keep these entries and no others, unless that is so already or another process has just been here."""
        if not self._usable or entries == self._kept or self._changed() != self._read_at:
            return
        import json

        skipped = len(self._root) + 1
        files = {
            key[skipped:]: [None if entry.status is None else list(entry.status), entry.facts.plain()]
            for key, entry in entries.items()
        }
        document = json.dumps({"stamp": _stamp(), "files": files}, separators=(",", ":"))
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            self._mark_folder()
            self._replace(document.encode())

    def _changed(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _mark_folder(self) -> None:
        """Tell git and programs that make backups to pass over the folder."""
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")):
            place = os.path.join(self._folder, name)
            with contextlib.suppress(FileExistsError), open(place, "x", encoding="utf-8") as file:
                file.write(text)

    def _replace(self, data: bytes) -> None:
        import tempfile

        handle, temporary = tempfile.mkstemp(prefix=".facts-", suffix=".tmp", dir=self._folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, self._path)
        except BaseException:
            os.unlink(temporary)
            raise


def _stamp() -> list[object]:
    from torchperf_lint import __version__

    return [_FORMAT, __version__]


def _entry(plain: Any) -> _Entry:
    """The entry that was written like this; raise ValueError for anything else."""
    match plain:
        case [None, facts]:
            return _Entry(None, Facts.from_plain(facts))
        case [[int() as size, int() as changed, int() as moved], facts]:
            return _Entry((size, changed, moved), Facts.from_plain(facts))
    raise ValueError("this is no entry")
