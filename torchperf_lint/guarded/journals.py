"""Where the journals of runs with `--check-with` lie: with the user, never in a project.

What a journal says is written to files. One in a project could come with that project, from anybody.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any, TypedDict

from torchperf_lint.engine.replacing import lock
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from typing import IO

_LOCK = "lock"
JOURNAL = "journal.json"


class Busy(Exception):
    """Another run is trying states of this project."""


def folder_of(root: str) -> str:
    """The folder for the journal of a project; raise OSError where the user has no place for it."""
    home = _home()
    if home is None:
        raise OSError(errno.ENOENT, "the user has no home folder for the journal")
    return os.path.join(home, _name_of(root))


def near(root: str) -> list[str]:
    """The folders with the journal of this project, of a part of it, or of a project that it is a part of."""
    home = _home()
    try:
        names = [] if home is None else sorted(os.listdir(home))
    except OSError:
        return []
    here, own = os.path.realpath(root), _name_of(root)
    found = []
    for name in names:
        folder = os.path.join(home or "", name)
        there = read(folder)["root"]
        if name == own or (name == _name_of(there) and _touch(here, there)):
            found.append(folder)
    return found


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
        root = os.path.realpath(journal["root"])
        files = [each for each in journal["files"] if _is_valid(each)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {"root": "", "files": []}
    return {"root": root, "files": files}


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


def _is_valid(entry: dict[str, Any]) -> bool:
    """Whether the entry of a journal says what has to be known of a file; raises ValueError, KeyError, TypeError."""
    entry["good"].encode("latin-1")
    return os.path.isabs(entry["path"]) and "\0" not in entry["path"] and isinstance(entry["written"], list)


def _name_of(root: str) -> str:
    return digest_of(os.fsencode(os.path.realpath(root)))


def _touch(first: str, second: str) -> bool:
    """Whether one of two folders lies in the other."""
    both = {first, second}
    try:
        return os.path.commonpath(both) in both
    except ValueError:  # on two drives, or no path
        return False


def _home() -> str | None:
    """The folder for the journals, by the XDG Base Directory Specification and on Windows.

    None where the user has no home folder: a path that begins in the current one may lie in a project.
    """
    said = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_STATE_HOME", "")
    state = said if os.path.isabs(said) else os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "torchperf-lint", "check-with") if os.path.isabs(state) else None
