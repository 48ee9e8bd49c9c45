"""Files that are tried in one state after the other: whatever ends the run, they are left in the last good one.

A journal in the project's root says what each file has to hold then. A run that is killed leaves it, and the next run
that fixes puts the files back. It takes no file that anybody else has changed in the meantime.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.replacing import ON_TRIAL, lock, replace, write_atomically
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType
    from typing import IO

_IGNORE, _JOURNAL = ".gitignore", "journal.json"


class Busy(Exception):
    """Another run is trying states of this project."""


class Changed(Exception):
    """Somebody else has written to a file that is being tried; the text is its path."""


class States:
    """The states of some files, within a `with` block; at its end they are in the last good state."""

    def __init__(self, root: str, before: Mapping[str, bytes]) -> None:
        self._folder = os.path.join(root, ON_TRIAL)
        self._good = dict(before)
        self._written = {path: [digest_of(data)] for path, data in before.items()}
        self._lock: IO[bytes] | None = None
        self._handlers: dict[int, Any] = {}
        self._shown = 0  # the second in which a state was last written for others to see

    def __enter__(self) -> States:  # noqa: PYI034 - `Self` is in `typing` from Python 3.11 on
        self._lock = _locked(self._folder)
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
        changed = None
        for path, data in state.items():
            now = _content(path)
            if now == data:
                continue
            if now is None or digest_of(now) not in self._written[path]:
                changed = changed or Changed(path)
                continue
            write_atomically(path, data)
        if changed is not None:
            raise changed

    def _note(self) -> None:
        """Write the journal before the files that it speaks of."""
        files = [
            {"path": os.path.abspath(path), "good": data.decode("latin-1"), "written": self._written[path]}
            for path, data in self._good.items()
        ]
        replace(os.path.join(self._folder, _JOURNAL), json.dumps(files).encode())

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


def recover(root: str) -> tuple[list[str], list[str]]:
    """The files that a killed run left in a state on trial, and are put back, and those that others have changed since.

    Raise Busy where that run is still at work, and OSError where a file cannot be written.
    """
    folder = os.path.join(root, ON_TRIAL)
    place = os.path.join(folder, _JOURNAL)
    back, left = [], []
    with _locked(folder):
        try:
            with open(place, "rb") as file:
                journal = json.load(file)
        except (OSError, ValueError):  # killed before it wrote to any file
            journal = []
        for each in journal:
            path, good = each["path"], each["good"].encode("latin-1")
            now = _content(path)
            if now == good:
                continue
            if now is None or digest_of(now) not in each["written"]:
                left.append(path)
            else:
                write_atomically(path, good)
                back.append(path)
        _remove(folder)
    return back, left


def _locked(folder: str) -> IO[bytes]:
    """The locked file of the journal's folder, which is made; raise Busy where another process has it."""
    os.makedirs(folder, 0o700, exist_ok=True)
    ignore = open(os.path.join(folder, _IGNORE), "ab", buffering=0)  # noqa: SIM115 - the lock lasts as long
    try:
        lock(ignore.fileno())
    except BlockingIOError:
        ignore.close()
        raise Busy from None
    except OSError:  # this file system has no locks
        pass
    ignore.truncate(0)
    ignore.write(b"*\n")
    return ignore


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
