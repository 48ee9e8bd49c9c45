"""The project's file symbols, cached between runs by content."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.project_root import Layout, layout_at, layout_of, root_of
from torchperf_lint.engine.store import Document, Status, as_status, settled, status_of
from torchperf_lint.engine.tool_fingerprint import program_stamp
from torchperf_lint.model.program import Program
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.syntax.identity import digest_of, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from torchperf_lint.knowledge.hints import Hints

MOST_UNKEPT = 25_000_000
"""Bytes of Python files, beyond the linted ones, that a run without a cache reads."""

LARGEST = 20_000_000
"""Bytes of the largest file whose symbols are extracted."""

_FORMAT = 10


def read_file(key: str) -> bytes:
    """The bytes of a file on this machine."""
    with open(key, "rb") as file:
        return file.read()


class Snapshot(NamedTuple):
    """A project's files and their symbols: plain data that can be sent to other processes."""

    layout: Layout
    facts: dict[str, FileSymbols]
    hints: Hints
    statuses: dict[str, Status | None]  # when the symbols were extracted; None: it would not show a later change

    def program(self, read: Callable[[str], bytes] | None = None, room: int = 0) -> Program:
        """The project as a Program; `read` gives a file's bytes and may raise OSError (None: from this machine).

        Where all linted files are in the snapshot, file access happens only through `read`. `room` is as for Program.
        """
        keys = {path: key for key, path in self.layout.shown.items()}
        layout = self.layout
        return Program(
            self.facts,
            layout.root,
            self.hints,
            read or read_file,
            layout.name,
            lambda path: keys.get(path) or key_of(path),
            room,
        )

    def changing(self, read: Callable[[str], bytes] | None = None, room: int = 0) -> ChangingProject:
        """The project as one whose files may get other contents; `read` and `room` are as for `program`."""
        return ChangingProject(self, read or read_file, room)


class ChangingProject:
    """A project of which some files may have other contents than on disk."""

    def __init__(self, snapshot: Snapshot, read: Callable[[str], bytes], room: int) -> None:
        """`read` gives the bytes of all other files; it and `room` are as for `Snapshot.program`."""
        self._read = read
        self._shown = snapshot.layout.shown
        self._contents: Mapping[str, bytes] = {}
        self._program = snapshot.program(self._current, room)

    def program(self, contents: Mapping[str, bytes]) -> Program:
        """The project with these contents, by path; the same object each time."""
        before, self._contents = self._contents, contents
        if before is not contents:
            self._program.put(contents, before.keys() - contents.keys())
        return self._program

    def _current(self, key: str) -> bytes:
        path = self._shown.get(key)
        return self._read(key) if path is None or path not in self._contents else self._contents[path]


class Projects:
    """The projects of files that arrive one by one; each is read when its first file arrives."""

    def __init__(self, hints: Hints, cache: str | None) -> None:
        """`hints` and `cache` are as for `gather`."""
        self._hints = hints
        self._cache = cache
        self._known: dict[str, tuple[Snapshot, Program]] = {}

    def around(self, path: str) -> Program:
        """The project of the file, independent of earlier files."""
        key = key_of(path)
        root = root_of([key])
        if root not in self._known:
            snapshot = look_at(layout_at(root, {}), self._hints, self._cache)
            self._known[root] = snapshot, snapshot.program()
        snapshot, program = self._known[root]
        left_out = None if key in snapshot.facts else _looked_up(key, None)
        if left_out is None:
            return program
        return snapshot._replace(facts={**snapshot.facts, key: left_out.facts}).program()


def gather(
    linted: Iterable[str],
    hints: Hints,
    cache: str | None = None,
    facts_of_all: Callable[[Iterator[bytes]], Iterable[FileSymbols]] | None = None,
    reading: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """Read the whole project of the files.

    `cache` is the folder for cached symbols, CACHE_FOLDER for that in the project's root (None: no cache); an unusable
    folder only costs time. `facts_of_all` extracts symbols from contents, in their order; by default this process does.
    `reading` is called with the number of files that are read and their total.
    """
    return look_at(layout_of(linted), hints, cache, facts_of_all, reading)


def look_at(
    layout: Layout,
    hints: Hints,
    cache: str | None,
    facts_of_all: Callable[[Iterator[bytes]], Iterable[FileSymbols]] | None = None,
    reading: Callable[[int, int], None] | None = None,
) -> Snapshot:
    """The same for a known layout."""
    store = None if cache is None else _Store(layout.root, cache)
    kept = {} if store is None else store.read()
    if store is None and _size(layout.found - layout.shown.keys()) > MOST_UNKEPT:
        layout = layout._replace(found=frozenset())
    found: dict[str, _Entry | Status | None] = {}

    def unknown() -> Iterator[bytes]:
        keys = layout.keys
        for number, key in enumerate(keys, 1):
            seen = _seen(key, kept.get(key))
            if isinstance(seen, _Entry):
                found[key] = seen
            elif seen is not None:
                found[key], data = seen
                yield data
            if reading is not None:
                reading(number, len(keys))

    new = iter(list((facts_of_all or _facts_here)(unknown())))
    entries = {key: each if isinstance(each, _Entry) else _Entry(each, next(new)) for key, each in found.items()}
    if store is not None and layout.found:
        store.write({key: entry for key, entry in entries.items() if key in layout.found})
    facts = {key: entry.facts for key, entry in entries.items()}
    return Snapshot(layout, facts, hints, {key: entry.status for key, entry in entries.items()})


def _facts_here(contents: Iterator[bytes]) -> Iterator[FileSymbols]:
    return map(symbols_of, contents)


def _size(keys: Iterable[str]) -> int:
    size = 0
    for key in keys:
        with contextlib.suppress(OSError):
            size += os.stat(key).st_size
    return size


# -- symbols cached on disk ----------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """A file's symbols and its status when they were extracted."""

    status: Status | None
    facts: FileSymbols


def _looked_up(key: str, kept: _Entry | None) -> _Entry | None:
    """The current entry of a file; None if it cannot be read."""
    seen = _seen(key, kept)
    return seen if seen is None or isinstance(seen, _Entry) else _Entry(seen[0], symbols_of(seen[1]))


def _seen(key: str, kept: _Entry | None) -> _Entry | tuple[Status | None, bytes] | None:
    """The current entry, or the file's status and bytes where symbols must be extracted."""
    try:
        status = status_of(os.stat(key))
        if kept is not None and kept.status == status:
            return kept
        if status[0] > LARGEST:
            return None
        data = read_file(key)
    except OSError:
        return None
    if kept is not None and kept.facts.digest == digest_of(data):
        return _Entry(settled(status), kept.facts)
    return settled(status), data


class _Store(Document):
    """The document that stores a project's symbols."""

    def __init__(self, root: str, cache: str) -> None:
        super().__init__(root, cache, "facts")
        self._root = root
        self._kept: dict[str, _Entry] = {}

    def read(self) -> dict[str, _Entry]:
        """The entries that an earlier run stored."""
        try:
            document = self.load()
            if document is not None and document["stamp"] == _stamp():
                files = document["files"].items()
                self._kept = {f"{self._root}/{place}": _entry(plain) for place, plain in files}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._kept = {}
        return self._kept

    def write(self, entries: dict[str, _Entry]) -> None:
        """Store exactly these entries, unless they are already stored."""
        if entries == self._kept:
            return
        skipped = len(self._root) + 1
        files = {
            key[skipped:]: [None if entry.status is None else list(entry.status), entry.facts.plain()]
            for key, entry in entries.items()
        }
        self.save({"stamp": _stamp(), "files": files})


def _stamp() -> list[object]:
    return [_FORMAT, digest_of(program_stamp().encode())]


def _entry(plain: Any) -> _Entry:
    """Decode an entry; raise ValueError for anything malformed."""
    match plain:
        case [status, facts]:
            return _Entry(as_status(status), FileSymbols.from_plain(facts))
    raise ValueError("this is no entry")
