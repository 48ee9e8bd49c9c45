"""Atomic replacement of a file: nobody sees partial content and git sees no other file, even if the process is killed.

The new file is made beside the old one, because only there it is certain to be on the same file system: in a folder of
its own with a `.gitignore` for everything in it. A later run removes what a killed process left there.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import time

UNFINISHED = ".torchperf-lint-"
"""Prefix of these folders' names."""

_IGNORE, _NEW = ".gitignore", "new"
"""Everything in such a folder; its `.gitignore` is locked until the file is replaced."""

_BEGUN = 1
"""Seconds after which a running process has certainly locked its folder."""

_FORGOTTEN = 86_400
"""Seconds after which a folder is a leftover where files cannot be locked."""


def write_atomically(path: str, data: bytes) -> None:
    """Replace a file's bytes atomically, keeping its mode and, where possible, its owner.

    A link stays and its target is replaced. Raise OSError, with the file unchanged, on failure; a file without
    write permission counts as a failure even for root.
    """
    target = os.path.realpath(path)
    replace(target, data, writable(path))


def writable(path: str) -> os.stat_result:
    """The status of a file; raise OSError where it may not be written to."""
    target = os.path.realpath(path)
    was = os.stat(target)
    if not was.st_mode & 0o222 or not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is read-only", path)
    return was


def prepare_output(path: str) -> None:
    """Make the folders that an output file lies in; raise OSError where it certainly cannot be written."""
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


def write_output(path: str, data: bytes) -> None:
    """Create or replace an output file atomically; raise OSError on failure, with an older file unchanged.

    What is no file, such as a pipe or /dev/stdout, is written to.
    """
    prepare_output(path)
    target = os.path.realpath(path)
    if not os.path.exists(path):
        replace(target, data, mode=0o666)
    elif os.path.isfile(path) and os.path.isfile(target):
        write_atomically(path, data)
    else:
        with open(path, "wb") as file:
            file.write(data)


def replace(target: str, data: bytes, was: os.stat_result | None = None, mode: int = 0o600) -> None:
    """Create or replace `target` with these bytes; a new file has this mode, less what the process masks.

    With `was`, the new file has that mode and owner, and is flushed to disk before it replaces the old one.
    """
    around = os.path.dirname(target)
    _tidy(around)
    folder = os.path.join(around, UNFINISHED + os.urandom(8).hex())
    os.mkdir(folder, 0o700)
    try:
        with open(os.path.join(folder, _IGNORE), "xb", buffering=0) as ignore:
            with contextlib.suppress(OSError):  # this file system has no locks
                lock(ignore.fileno())
            ignore.write(b"*\n")
            new = os.path.join(folder, _NEW)
            with open(new, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
                file.write(data)
                if was is not None:
                    file.flush()
                    _take_after(file.fileno(), was)
                    os.fsync(file.fileno())
            os.replace(new, target)
    finally:
        with contextlib.suppress(OSError):
            _remove(folder)


def lock(handle: int) -> None:
    """Lock an open file until it is closed; raise BlockingIOError where it is locked, or OSError where it cannot be."""
    try:
        import fcntl
    except ImportError:  # Windows
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP)) from None
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@functools.cache
def _tidy(around: str) -> None:
    """Remove what killed runs left in a folder; each folder is searched once."""
    with contextlib.suppress(OSError), os.scandir(around or ".") as entries:
        for each in [entry.path for entry in entries if entry.name.startswith(UNFINISHED)]:
            remove_leftover(each)


def remove_leftover(folder: str) -> None:
    """Remove a folder that a killed run left, unless it contains anything else or a process is using it."""
    with contextlib.suppress(OSError):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or {*os.listdir(folder)} - {_IGNORE, _NEW}:
            return
        age = time.time() - status.st_mtime
        if age >= _BEGUN and (_is_left(folder) or age >= _FORGOTTEN):
            _remove(folder)


def _is_left(folder: str) -> bool:
    """Whether no process holds the folder's lock."""
    place = os.path.join(folder, _IGNORE)
    try:
        if not stat.S_ISREG(os.lstat(place).st_mode):
            return False
        with open(place, "rb") as ignore:
            lock(ignore.fileno())
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove(folder: str) -> None:
    for name in (_NEW, _IGNORE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    os.rmdir(folder)


def _take_after(handle: int, was: os.stat_result) -> None:
    """Give the new file the old one's owner and mode (in this order: changing the owner may drop mode bits)."""
    if not hasattr(os, "fchown"):  # Windows: mode and owner come with the folder
        return
    now = os.fstat(handle)
    if (now.st_uid, now.st_gid) != (was.st_uid, was.st_gid):
        with contextlib.suppress(PermissionError):  # only root may change owners
            os.fchown(handle, was.st_uid, was.st_gid)
    os.fchmod(handle, stat.S_IMODE(was.st_mode))
