"""Files that are tried in one state after the other: whatever ends the run, they are left in the last good one.

A journal says what each file has to hold then. A run that is killed leaves it, and the next run that fixes puts the
files back. A file that anybody else has changed in the meantime is left as it is, and its last good state is kept
beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.replacing import replace, write_atomically
from torchperf_lint.guarded import journals
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType
    from typing import IO


class Changed(Exception):
    """Somebody else has written to files that are being tried; the text says which, and where they are kept."""


class Recovered(NamedTuple):
    """The files that are put back, and those that others have changed since, with the place of their good state."""

    back: list[str]
    left: list[tuple[str, str | None]]


class States:
    """The states of some files, within a `with` block; at its end they are in the last good state."""

    def __init__(self, root: str, before: Mapping[str, bytes]) -> None:
        self._root = os.path.realpath(root)
        self._folder = journals.folder_of(root)
        self._good = dict(before)
        self._written = {path: [digest_of(data)] for path, data in before.items()}
        self._lock: IO[bytes] | None = None
        self._handlers: dict[int, Any] = {}
        self._shown = 0  # the second in which a state was last written for others to see

    def __enter__(self) -> States:  # noqa: PYI034 - `Self` is in `typing` from Python 3.11 on
        self._lock = journals.locked(self._folder)
        try:
            self._note()
            self._handle_signals()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with _uninterrupted():
            try:
                self._replace(self._good)
            except OSError:  # the journal stays for the next run
                self._leave(done=False)
                raise
            except BaseException:
                self._leave()
                raise
            self._leave()

    def show(self, state: Mapping[str, bytes]) -> None:
        """Write the files for a command to see.

        Python takes a module's byte code for valid by the second of its time and its size, so no two states that a
        command sees are written in the same second.
        """
        while int(time.time()) == self._shown and any(_content(path) != data for path, data in state.items()):
            time.sleep(0.05)
        self.write(state)
        self._shown = int(time.time())

    def write(self, state: Mapping[str, bytes]) -> None:
        """Write the files, each in one step; raise Changed, or OSError."""
        for path, data in state.items():
            digest = digest_of(data)
            if digest not in self._written[path]:
                self._written[path].append(digest)
        self._note()
        self._replace(state)

    def settle(self, state: Mapping[str, bytes]) -> None:
        """Take a state that has been written for the good one."""
        self._good = {**self._good, **state}
        self._note()

    def _replace(self, state: Mapping[str, bytes]) -> None:
        changed = []
        for path, data in state.items():
            now = _content(path)
            if now == data:
                continue
            if now is None or digest_of(now) not in self._written[path]:
                changed.append(path)
                continue
            write_atomically(path, data)
        if changed:
            kept = [(path, _kept_beside(path, self._good[path])) for path in changed]
            raise Changed(", ".join(path if place is None else f"{path} (before: {place})" for path, place in kept))

    def _note(self) -> None:
        """Write the journal before the files that it speaks of."""
        files: list[journals.OnTrial] = [
            {"path": os.path.abspath(path), "good": data.decode("latin-1"), "written": self._written[path]}
            for path, data in self._good.items()
        ]
        journal: journals.Journal = {"root": self._root, "files": files}
        replace(os.path.join(self._folder, journals.JOURNAL), json.dumps(journal).encode())

    def _handle_signals(self) -> None:
        """Let signals that would end the process end the block first."""

        def end(number: int, frame: FrameType | None) -> None:
            raise SystemExit(128 + number)

        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                    self._handlers[number] = signal.signal(number, end)

    def _leave(self, *, done: bool = True) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if done:
            _remove(self._folder)
        if self._lock is not None:
            self._lock.close()


def recover(root: str) -> Recovered:
    """Put back the files that killed runs left in a state on trial.

    Raise Busy where such a run is still at work, and OSError where a file cannot be written.
    """
    found = Recovered([], [])
    for folder in journals.near(root):
        with journals.locked(folder):
            for each in journals.read(folder)["files"]:
                path, good = each["path"], each["good"].encode("latin-1")
                now = _content(path)
                if now == good:
                    continue
                if now is None or digest_of(now) not in each["written"]:
                    found.left.append((path, _kept_beside(path, good)))
                else:
                    write_atomically(path, good)
                    found.back.append(path)
            _remove(folder)
    return found


def _kept_beside(path: str, data: bytes) -> str | None:
    """The new file beside `path` that holds the data, or None where none can be made."""
    for count in range(100):
        place = f"{path}.orig{count or ''}"
        if _content(place) == data:
            return place
        if not os.path.lexists(place):
            try:
                replace(place, data)
            except OSError:
                return None
            return place
    return None


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _remove(folder: str) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A block that Ctrl-C does not end half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
