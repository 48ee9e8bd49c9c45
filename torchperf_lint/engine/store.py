"""JSON documents stored between runs, each read and replaced as a whole.

Stored content is untrusted: it is plain JSON or it is ignored. The last writer wins.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import Any

from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.replacing import replace
from torchperf_lint.syntax.identity import digest_of

LARGEST = 500_000_000
"""Bytes of the largest document that is read or written."""

SETTLED = 2_000_000_000
"""Nanoseconds after which a file's modification time distinguishes it from later content, on the coarsest clocks."""

Status = tuple[int, int, int]
"""Detects changes of a file: its size and its two times of change."""


def status_of(now: os.stat_result) -> Status:
    """A file's status from `os.stat`."""
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns


def settled(status: Status) -> Status | None:
    """The status, or None if the file changed too recently for its times to detect another change."""
    return status if max(status[1:]) + SETTLED < time.time_ns() else None


def as_status(plain: Any) -> Status | None:
    """Decode a status from JSON; raise ValueError for anything else."""
    match plain:
        case None:
            return None
        case [int() as size, int() as changed, int() as moved]:
            return size, changed, moved
    raise ValueError("this is no status")


class Document:
    """A project's document. An unusable folder only costs time."""

    def __init__(self, root: str, cache: str, name: str) -> None:
        """`cache` is a folder of the user's, or CACHE_FOLDER for that in the project's root."""
        own = cache == CACHE_FOLDER
        self._folder = os.path.join(root, cache)
        # A project may bring its own cache folder, and links lead anywhere; a folder that the user names is trusted.
        self._usable = not (own and os.path.islink(self._folder))
        self._ending = ".json" if own else f"-{digest_of(root.encode())[:16]}.json"
        self._name = name + self._ending
        self._path = os.path.join(self._folder, self._name)
        self._read_at: tuple[int, int] | None = None

    def load(self) -> Any:
        """The stored data; None if it is truncated, foreign or unreadable."""
        if not self._usable:
            return None
        self._read_at = self._changed()
        try:
            status = os.lstat(self._path)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                return None
            with open(self._path, "rb") as file:
                data = file.read()
            import json

            return json.loads(data)
        except (OSError, ValueError, RecursionError, MemoryError):
            return None

    def save(self, document: Any) -> bool:
        """Replace the stored data, unless another process has just written it; returns whether it is stored now."""
        if not self._usable or self._changed() != self._read_at:
            return False
        import json

        data = json.dumps(document, separators=(",", ":")).encode()
        if len(data) > LARGEST:
            return False
        try:
            os.makedirs(self._folder, exist_ok=True)
            self._mark_folder()
            replace(self._path, data)
        except OSError:
            return False
        self._read_at = self._changed()
        return True

    def prune(self, like: str, most: int) -> None:
        """Delete the project's documents with this prefix, except the `most` last written."""
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(self._folder) if name.startswith(like) and name.endswith(self._ending)]
            paths = [os.path.join(self._folder, name) for name in names]
            for path in sorted(paths, key=lambda path: os.lstat(path).st_mtime_ns)[: max(0, len(paths) - most)]:
                os.unlink(path)

    def _changed(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _mark_folder(self) -> None:
        """Mark the folder so that git and backup programs skip it."""
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")):
            place = os.path.join(self._folder, name)
            with contextlib.suppress(FileExistsError), open(place, "x", encoding="utf-8") as file:
                file.write(text)
