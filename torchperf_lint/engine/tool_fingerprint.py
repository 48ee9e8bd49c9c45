"""Fingerprints of this program; stored results of another version are not reused."""

from __future__ import annotations

import functools
import os
import sys

_BYTE_CODE = "__pycache__"


@functools.cache
def program_stamp() -> str:
    """The program's version and files (a checkout changes without its version), Python's version, libcst, and plugins.

    Byte code, and data stored beside it, is derived from the files and not included.
    """
    from torchperf_lint import __version__

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    pending, seen = [folder], []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != _BYTE_CODE:
                        pending.append(entry.path)
                elif entry.name.endswith((".py", ".json")):  # including declarations that a wheel ships
                    status = entry.stat()
                    seen.append((entry.path, status.st_size, status.st_mtime_ns))
    from torchperf_lint.engine.plugins import files

    seen += ((path, status.st_size, status.st_mtime_ns) for path, status in files())
    return repr((__version__, sys.version, sys.platform, sorted(seen), _libcst()))


@functools.cache
def portable_stamp() -> str:
    """A fingerprint that is equal on machines with the same program, independent of its path and modification times.

    Users see it: the versions of the program, of Python and of libcst, with a short digest of its files.
    """
    from importlib.metadata import version

    from torchperf_lint import __version__
    from torchperf_lint.syntax.identity import digest_of

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    contents = []
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                with open(path, "rb") as file:
                    contents.append((os.path.relpath(path, folder).replace(os.sep, "/"), digest_of(file.read())))
    from torchperf_lint.engine.plugins import files as files_of_plugins
    from torchperf_lint.engine.plugins import plugins

    for path, _ in files_of_plugins():
        with open(path, "rb") as file:
            contents.append((os.path.basename(path), digest_of(file.read())))
    contents += ((each.distribution, each.module) for each in plugins())
    files = digest_of(repr(sorted(contents)).encode())[:8]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"torchperf-lint {__version__} ({files}) on Python {python} with libcst {version('libcst')}"


def _libcst() -> list[tuple[str, int, int]]:
    """Files that change with libcst's version, found without importing it."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec("libcst")
    if found is None or found.origin is None:
        return []
    folder = os.path.dirname(found.origin)
    statuses = [(name, os.stat(os.path.join(folder, name))) for name in sorted(os.listdir(folder))]
    return [(f"{folder}/{name}", status.st_size, status.st_mtime_ns) for name, status in statuses]
