"""What names the program that keeps something between runs: another program may say something else."""

from __future__ import annotations

import functools
import os
import sys

_BYTE_CODE = "__pycache__"


@functools.cache
def program_stamp() -> str:
    """Its version and files (a checkout changes without its version), the interpreter's version, and libcst.

    Byte code, and what is kept beside it, follows from the files.
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
                elif entry.name.endswith((".py", ".json")):  # declarations that a wheel brings count as well
                    status = entry.stat()
                    seen.append((entry.path, status.st_size, status.st_mtime_ns))
    return repr((__version__, sys.version, sys.platform, sorted(seen), _libcst()))


def _libcst() -> list[tuple[str, int, int]]:
    """The files that change with libcst's version, found without importing it."""
    from importlib.machinery import PathFinder

    found = PathFinder.find_spec("libcst")
    if found is None or found.origin is None:
        return []
    folder = os.path.dirname(found.origin)
    statuses = [(name, os.stat(os.path.join(folder, name))) for name in sorted(os.listdir(folder))]
    return [(f"{folder}/{name}", status.st_size, status.st_mtime_ns) for name, status in statuses]
