"""Where the journals of runs with `--check-with` lie: with the user, never in a project.

What a journal says is written to files. One in a project could come with that project, from anybody.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, TypedDict

from torchperf_lint.engine.replacing import lock
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from typing import IO

_LOCK = "lock"
JOURNAL = "journal.json"


class Busy(Exception):
    """Another run is trying states of this project."""


def folder_of(root: str) -> str:
    """The folder for the journal of a project."""
    return os.path.join(_home(), digest_of(os.fsencode(os.path.realpath(root))))


def near(root: str) -> list[str]:
    """The folders with a journal of this project, of one in its folders or of one around it."""
    here = os.path.realpath(root)
    try:
        names = sorted(os.listdir(_home()))
    except OSError:
        return []
    folders = [os.path.join(_home(), name) for name in names]
    return [each for each in folders if each == folder_of(root) or _touch(here, read(each)["root"])]


class Journal(TypedDict):
    """The root of a project, and its files."""

    root: str
    files: list[OnTrial]


class OnTrial(TypedDict):
    """A file: its path, its last good content (in latin-1), and the digests of what the run has written to it."""

    path: str
    good: str
    written: list[str]


def read(folder: str) -> Journal:
    """The journal in a folder; an empty one where a run was killed before it wrote to any file."""
    try:
        with open(os.path.join(folder, JOURNAL), "rb") as file:
            journal = json.load(file)
        return {"root": str(journal["root"]), "files": list(journal["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"root": "", "files": []}


def locked(folder: str) -> IO[bytes]:
    """The locked file of a journal's folder, which is made; raise Busy where another process has it."""
    os.makedirs(folder, 0o700, exist_ok=True)
    file = open(os.path.join(folder, _LOCK), "ab", buffering=0)  # noqa: SIM115 - the lock lasts as long
    try:
        lock(file.fileno())
    except BlockingIOError:
        file.close()
        raise Busy from None
    except OSError:  # this file system has no locks
        pass
    return file


def _touch(first: str, second: str) -> bool:
    """Whether one of two folders lies in the other."""
    both = {first, second}
    try:
        return os.path.commonpath(both) in both
    except ValueError:  # on two drives, or no path
        return False


def _home() -> str:
    """The folder for what programs keep of their state, by the XDG Base Directory Specification and on Windows."""
    said = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    state = said if os.path.isabs(said) else os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "torchperf-lint", "check-with")
