"""Documents kept between runs: each read and replaced as a whole, and believed in nothing but plain data.

Whatever lies in the place of one is parsed as JSON, or it is no document. Who writes last wins.
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
"""Nanoseconds after which a file's time of change tells it from any later content, on the coarsest of clocks."""

Status = tuple[int, int, int]
"""What tells whether a file has changed: its size and its two times of change."""


def status_of(now: os.stat_result) -> Status:
    """The status of a file, by what the system says of it."""
    return now.st_size, now.st_mtime_ns, now.st_ctime_ns


def settled(status: Status) -> Status | None:
    """The status, unless the file has changed too shortly ago for its times to tell."""
    return status if max(status[1:]) + SETTLED < time.time_ns() else None


def as_status(plain: Any) -> Status | None:
    """The status that JSON has kept; raise ValueError for anything else."""
    match plain:
        case None:
            return None
        case [int() as size, int() as changed, int() as moved]:
            return size, changed, moved
    raise ValueError("this is no status")


class Document:
    """A document of a project. A folder that cannot be used costs only time."""

    def __init__(self, root: str, cache: str, name: str) -> None:
        """`cache` is a folder of the user's, or CACHE_FOLDER for that in the project's root."""
        own = cache == CACHE_FOLDER
        self._folder = os.path.join(root, cache)
        # A folder in the project may come with it, and a link there lead anywhere; one that the user names is theirs.
        self._usable = not (own and os.path.islink(self._folder))
        self._ending = ".json" if own else f"-{digest_of(root.encode())[:16]}.json"
        self._name = name + self._ending
        self._path = os.path.join(self._folder, self._name)
        self._read_at: tuple[int, int] | None = None

    def load(self) -> Any:
        """What an earlier run has kept; None for what is torn, foreign or out of reach."""
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
        """Keep this and nothing else, unless another process has just been here; whether it is kept now."""
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
        """Of the project's documents whose names begin like this, leave only so many, those that were written last."""
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
        """Tell git and programs that make backups to pass over the folder."""
        for name, text in ((".gitignore", "*\n"), ("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")):
            place = os.path.join(self._folder, name)
            with contextlib.suppress(FileExistsError), open(place, "x", encoding="utf-8") as file:
                file.write(text)
