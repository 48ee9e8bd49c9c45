"""`--watch`: checks again whenever a file changes, until it is interrupted."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from torchperf_lint.check import CLEAN, complain, run
from torchperf_lint.config import OWN_FILES, PROJECT_FILE, files_read
from torchperf_lint.engine.files import CACHE_FOLDER, SEARCHED
from torchperf_lint.options import common_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

_IGNORES = ".gitignore"

_MATTER = (*SEARCHED, ".toml", ".cfg", ".txt", ".lock", _IGNORES)
"""Endings of code, configurations, exclusions and files that state versions."""

_MILLISECONDS = 200


def watch(options: argparse.Namespace) -> int:
    """Check until an interrupt, which is raised; return the exit status where nothing can be watched."""
    try:
        import watchfiles
    except ImportError:
        return complain("torchperf-lint: error: --watch needs watchfiles: pip install 'torchperf-lint[watch]'")
    folders = {path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in options.paths}
    absent = [path for path in sorted(folders) if not os.path.isdir(path)]
    if absent:
        return complain(f"torchperf-lint: error: {absent[0]} is no folder that can be watched")
    usual = watchfiles.DefaultFilter()

    def matters(change: watchfiles.Change, path: str) -> bool:
        return path.endswith(_MATTER) and CACHE_FOLDER not in path and usual(change, path)

    again, elsewhere = False, dict[str, tuple[int, int] | None]()
    # The first item comes as soon as changes are noted: none is missed while the files are checked.
    for changes in watchfiles.watch(*folders, watch_filter=matters, rust_timeout=_MILLISECONDS, yield_on_timeout=True):
        now = _states(elsewhere)
        if again and not changes and now == elsewhere:
            continue
        if again and sys.stdout.isatty():
            print("\033[2J\033[H", end="")
        again = True
        before = now or _states(_outside(options, folders))
        run(options)
        elsewhere = {**_states(_outside(options, folders)), **before}
        sys.stdout.flush()
        if not options.quiet:
            print("Watching for changes; Ctrl-C ends it.", file=sys.stderr, flush=True)
    return CLEAN


def _outside(options: argparse.Namespace, folders: Iterable[str]) -> set[str]:
    """The files that decide what is checked, and how, but are not among those that are watched.

    They are the configurations and `.gitignore`s above the folders, there or not, and what a configuration is based on.
    """
    found = set(files_read())
    folder, below = os.path.abspath(common_folder(options)), ""
    while folder != below:
        found.update(os.path.join(folder, name) for name in (_IGNORES, *OWN_FILES, PROJECT_FILE))
        folder, below = os.path.dirname(folder), folder
    inside = tuple(os.path.join(os.path.abspath(each), "") for each in folders)
    return {path for path in found if not (path.startswith(inside) and path.endswith(_MATTER))}


def _states(paths: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """What a change of these files changes; None of one that is not there."""
    return {path: _state(path) for path in paths}


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
