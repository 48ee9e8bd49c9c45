"""Copies a folder's layout, so that a program in the copy finds what it would find in the folder itself."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import DEFAULT_EXCLUDE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LARGEST = 2**20
"""Bytes of the largest copied file; larger ones, mostly data, are linked."""

MOST_BYTES = 64 * 2**20
"""Total bytes to copy; further files are linked."""

MOST_ENTRIES = 20_000
"""Number of entries to lay out; further folders are linked as a whole."""

_COMPILED = "__pycache__"  # of files that are going to be changed


class Earlier(NamedTuple):
    """The state before a program ran: the files in some folders at a time, in seconds since the epoch."""

    time: float
    files: frozenset[str]

    def is_output(self, path: str, status: os.stat_result) -> bool:
        """Whether the program created the file, or overwrote one that is too large to copy or link."""
        return status.st_mtime >= self.time and (path not in self.files or status.st_size > LARGEST)


def as_it_is(folders: Iterable[str]) -> Earlier:
    """The current state."""
    begun = time.time()
    files: set[str] = set()
    for folder in folders:
        pending, entries = deque([folder]), 0
        while pending:
            inside = _inside(pending.popleft())
            entries += len(inside)
            files.update(entry.path for entry, status in inside if stat.S_ISREG(status.st_mode))
            if entries < MOST_ENTRIES:
                pending += [entry.path for entry, status in inside if _is_gone_into(entry, status)]
    return Earlier(begun, frozenset(files))


def lay_out(
    folder: str, into: str, sources: Collection[str], *, earlier: Earlier | None = None, deep: bool = True
) -> None:
    """Lay a folder out as `into`, which must not exist; raise OSError on failure.

    The `sources` (real paths) are copied wherever they are in it, and so are small files. Everything else is linked.
    The outputs of a program that ran since the `earlier` state are left out. Unless `deep`, subfolders are linked.
    """
    copied = entries = 0
    on_the_way = {above for source in sources for above in _folders_above(source, folder)}
    pending = deque([(folder, into)])
    while pending:
        here, there = pending.popleft()
        os.mkdir(there)
        inside = _inside(here)
        entries += len(inside)
        for entry, status in inside:
            place = os.path.join(there, entry.name)
            follows = deep and entries < MOST_ENTRIES and _is_gone_into(entry, status)
            if entry.path in sources:
                shutil.copy2(entry.path, place)
            elif follows or entry.path in on_the_way:
                pending.append((entry.path, place))
            elif stat.S_ISDIR(status.st_mode):
                os.symlink(entry.path, place)
            elif earlier is not None and earlier.is_output(entry.path, status):
                continue
            elif status.st_size <= LARGEST and copied + status.st_size <= MOST_BYTES and os.access(entry.path, os.R_OK):
                shutil.copy2(entry.path, place)
                copied += status.st_size
            else:
                os.symlink(entry.path, place)


def _is_gone_into(entry: os.DirEntry[str], status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and not entry.is_symlink() and entry.name not in DEFAULT_EXCLUDE


def _inside(folder: str) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """The files and folders in a folder, by name, each with what it is, through links; none of one that is closed."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                status = _status(entry)
                if status is not None and entry.name != _COMPILED:
                    found.append((entry, status))
    except PermissionError:
        return []
    return found


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What an entry is; None for a link that leads nowhere, and for what is neither a file nor a folder."""
    try:
        status = entry.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else None


def _folders_above(path: str, folder: str) -> list[str]:
    """The folders below `folder` that hold a path."""
    found = []
    above = os.path.dirname(path)
    while above.startswith(os.path.join(folder, "")):
        found.append(above)
        above = os.path.dirname(above)
    return found
