"""The project around what is linted: its root, its files, and their facts, kept between runs by content."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover, write_atomically
from torchperf_lint.model.facts import Facts, digest_of, facts_of
from torchperf_lint.model.program import Program, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.knowledge.hints import Hints

MARKERS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
"""What lies in the root of a project."""

CACHE_FOLDER = ".torchperf_lint_cache"

MOST_FILES = 20_000
"""A folder with more Python files than this is no project: only what is linted is looked at."""

_FORMAT = 1
_LARGEST = 20_000_000


class Snapshot(NamedTuple):
    """The files of a project and what is known of them: plain data that can be sent to other processes."""

    root: str
    facts: dict[str, Facts]
    shown: dict[str, str]  # how the linted files are named to the user
    hints: Hints

    def program(self) -> Program:
        """The project, ready to be asked."""
        here = key_of(os.curdir)

        def shown(key: str) -> str:
            named = self.shown.get(key)
            if named is not None:
                return named
            return key[len(here) + 1 :] if key.startswith(here + "/") else key

        return Program(self.facts, self.root, self.hints, _read, shown)


def gather(
    linted: Iterable[str], hints: Hints, exclude: Sequence[str] = DEFAULT_EXCLUDE, cache: str | None = None
) -> Snapshot:
    """Look at the whole project that the files belong to.

    `exclude` is `files.discover`'s. `cache` is a folder to keep facts in, absolute or below the project's root
    (None: nothing is read or written); a folder that cannot be used costs only time.
    """
    shown = {key_of(path): path for path in linted}
    root = root_of(shown)
    found = discover([root], exclude, root).files if shown else ()
    keys = {key_of(path) for path in found} if len(found) <= MOST_FILES else set()
    keys |= shown.keys()
    store = None if cache is None else os.path.join(root, cache, f"facts-{digest_of(root.encode())[:16]}.json")
    kept = _kept(store)
    facts: dict[str, Facts] = {}
    entries: dict[str, _Entry] = {}
    for key in sorted(keys):
        entry = _looked_up(key, kept.get(key))
        if entry is not None:
            entries[key], facts[key] = entry, entry.facts
    if store is not None and entries != kept:
        _keep(store, entries)
    return Snapshot(root, facts, shown, hints)


def root_of(keys: Iterable[str]) -> str:
    """The nearest folder above all the files that has a marker of a project's root; else what holds them all.

    Where there is no marker, folders that are packages are left upwards.
    """
    folders = {os.path.dirname(key) for key in keys}
    try:
        common = os.path.commonpath(folders) if folders else os.path.realpath(os.curdir)
    except ValueError:  # on several drives
        return os.path.realpath(os.curdir).replace(os.sep, "/")
    folder, above = common, ""
    while folder != above:
        if any(os.path.exists(os.path.join(folder, marker)) for marker in MARKERS):
            return folder.replace(os.sep, "/")
        folder, above = os.path.dirname(folder), folder
    while os.path.exists(os.path.join(common, "__init__.py")):
        common = os.path.dirname(common)
    return common.replace(os.sep, "/")


def _read(key: str) -> bytes:
    with open(key, "rb") as file:
        return file.read()


# -- facts kept on disk --------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """The facts of a file, with its size and time of change when they were taken."""

    size: int
    changed: int
    facts: Facts


def _looked_up(key: str, kept: _Entry | None) -> _Entry | None:
    """The entry of a file as it is now; None if it cannot be read."""
    try:
        status = os.stat(key)
        if kept is not None and (kept.size, kept.changed) == (status.st_size, status.st_mtime_ns):
            return kept
        if status.st_size > _LARGEST:
            return None
        data = _read(key)
    except OSError:
        return None
    if kept is not None and kept.facts.digest == digest_of(data):
        return kept._replace(size=status.st_size, changed=status.st_mtime_ns)
    return _Entry(status.st_size, status.st_mtime_ns, facts_of(data))


def _stamp() -> list[object]:
    from torchperf_lint import __version__

    return [_FORMAT, __version__]


@functools.lru_cache(maxsize=1)
def _parsed(path: str, changed: int) -> dict[str, _Entry]:
    with open(path, "rb") as file:
        document = json.loads(file.read())
    if document["stamp"] != _stamp():
        return {}
    return {
        key: _Entry(int(size), int(changed), Facts.from_plain(plain))
        for key, (size, changed, plain) in document["files"].items()
    }


def _kept(store: str | None) -> dict[str, _Entry]:
    """What an earlier run has kept; a store that is torn, foreign or out of reach is none."""
    if store is None:
        return {}
    try:
        return _parsed(store, os.stat(store).st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _keep(store: str, entries: dict[str, _Entry]) -> None:
    document = {
        "stamp": _stamp(),
        "files": {key: [entry.size, entry.changed, entry.facts.plain()] for key, entry in entries.items()},
    }
    cache = os.path.dirname(store)
    try:
        os.makedirs(cache, exist_ok=True)
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")):
            place = os.path.join(cache, name)
            if not os.path.exists(place):
                with open(place, "w", encoding="utf-8") as file:
                    file.write(text)
        if not os.path.exists(store):
            with open(store, "wb"):
                pass
        write_atomically(store, json.dumps(document, separators=(",", ":")).encode())
    except OSError:
        return
