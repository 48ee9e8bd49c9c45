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


CLOCK_LAG = 0.05
"""Seconds by which the times of files may lag behind `time.time()`: the kernel takes them from its last tick."""


class Changed(Exception):
    """Somebody else has written to files that are being tried; the text says which, and where their good state is."""


class Recovered(NamedTuple):
    """The files that are put back, and those that others have changed since, with the place of their good state."""

    back: list[str]
    left: list[tuple[str, str]]


class States:
    """The states of some files, within a `with` block; at its end they are in the last good state."""

    def __init__(self, root: str, before: Mapping[str, bytes]) -> None:
        self._root = os.path.realpath(root)
        self._folder = journals.folder_of(root)
        self._good = dict(before)
        self._written = {path: [digest_of(data)] for path, data in before.items()}
        self._seen = {path: (data, _second_of(path)) for path, data in before.items()}  # by the last command
        self._lock: IO[bytes] | None = None
        self._handlers: dict[int, Any] = {}
        self._is_kept = True  # the good state of what somebody else has changed

    def __enter__(self) -> States:  # noqa: PYI034 - `Self` is in `typing` from Python 3.11 on
        self._lock = journals.locked(self._folder)
        try:
            self._be_alone()
            self._note()
            self._handle_signals()
        except BaseException:
            self._leave(done=False)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        with _uninterrupted():
            done = False  # then the journal stays for the next run
            try:
                self._replace_anew(self._good)
                done = True
            except Changed:
                done = self._is_kept
                raise
            finally:
                self._leave(done=done)

    def show(self, state: Mapping[str, bytes]) -> None:
        """Write the files for a command to see."""
        self._note_written(state)
        self._replace_anew(state)
        self._seen.update({path: (data, _second_of(path)) for path, data in state.items()})

    def write(self, state: Mapping[str, bytes]) -> None:
        """Write the files, each in one step; raise Changed, or OSError."""
        self._note_written(state)
        self._replace(state)

    def settle(self, state: Mapping[str, bytes]) -> None:
        """Take a state that has been written for the good one."""
        self._good = {**self._good, **state}
        self._note()

    def _replace_anew(self, state: Mapping[str, bytes]) -> None:
        """Write the files in another second than that of what the last command saw in their place.

        Python takes a module's byte code for valid by the second of its time and its size.
        """
        other = [path for path, data in state.items() if self._seen[path][0] != data]
        seen = {self._seen[path][1] for path in other}
        while seen & {int(time.time()), int(time.time() - CLOCK_LAG)}:
            time.sleep(0.05)
        self._replace(state)
        for path in other:  # it may have been written before, in the second that is to be left
            with contextlib.suppress(OSError):
                os.utime(path)

    def _replace(self, state: Mapping[str, bytes]) -> None:
        changed, failed = [], None
        for path, data in state.items():
            now = _content(path)
            if now == data:
                continue
            if now is None or digest_of(now) not in self._written[path]:
                changed.append(path)
                continue
            try:
                write_atomically(path, data)
            except OSError as error:  # the others have to be written all the same
                failed = failed or error
        if failed is not None:
            raise failed
        if changed:
            kept = [(path, _kept_beside(path, self._good[path])) for path in changed]
            self._is_kept = all(place is not None for _, place in kept)
            journal = os.path.join(self._folder, journals.JOURNAL)
            raise Changed(", ".join(f"{path} (before: {place or journal})" for path, place in kept))

    def _be_alone(self) -> None:
        """Raise Busy where another run is at work in a part of the project, or around it, or has left a journal."""
        for folder in journals.near(self._root):
            if folder != self._folder:
                journals.locked(folder).close()
            if journals.read(folder)["files"]:
                raise journals.Busy

    def _note_written(self, state: Mapping[str, bytes]) -> None:
        for path, data in state.items():
            digest = digest_of(data)
            if digest not in self._written[path]:
                self._written[path].append(digest)
        self._note()

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
        if done and os.path.isdir(self._folder):  # Windows removes no folder with an open file
            _remove(self._folder)


def recover(root: str) -> Recovered:
    """Put back the files that killed runs left in a state on trial.

    Raise Busy where such a run is still at work, and OSError where a file cannot be written.
    """
    found = Recovered([], [])
    for folder in journals.near(root):
        lost = False
        with journals.locked(folder):
            for each in journals.read(folder)["files"]:
                path, good = each["path"], each["good"].encode("latin-1")
                now = _content(path)
                if now == good:
                    continue
                if now is None or digest_of(now) not in each["written"]:
                    place = _kept_beside(path, good)
                    found.left.append((path, place or os.path.join(folder, journals.JOURNAL)))
                    lost = lost or place is None
                else:
                    write_atomically(path, good)
                    found.back.append(path)
            if not lost:
                _remove(folder)
    return found


def _kept_beside(path: str, data: bytes) -> str | None:
    """The new file beside `path` that holds the data, with its mode, or None where none can be made."""
    for count in range(100):
        place = f"{path}.orig{count or ''}"
        if _content(place) == data:
            return place
        if not os.path.lexists(place):
            try:
                replace(place, data, mode=os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600)
            except OSError:
                return None
            return place
    return None


def _second_of(path: str) -> int | None:
    """The second in which a file was written."""
    try:
        return int(os.stat(path).st_mtime)
    except OSError:
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
