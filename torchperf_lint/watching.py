"""`--watch`: checks again whenever a file changes, until it is interrupted."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from torchperf_lint.check import CLEAN, complain, run
from torchperf_lint.engine.files import CACHE_FOLDER, SEARCHED

if TYPE_CHECKING:
    import argparse

_MATTER = (*SEARCHED, ".toml", ".cfg", ".txt", ".lock")
"""Endings of code, configurations and files that state versions."""

_MILLISECONDS = 200


def watch(options: argparse.Namespace) -> int:
    """Check until an interrupt, which is raised; return the exit status where nothing can be watched."""
    try:
        import watchfiles
    except ImportError:
        return complain("torchperf-lint: error: --watch needs watchfiles: pip install watchfiles")
    folders = {path if os.path.isdir(path) else os.path.dirname(path) or os.curdir for path in options.paths}
    absent = [path for path in sorted(folders) if not os.path.isdir(path)]
    if absent:
        return complain(f"torchperf-lint: error: {absent[0]} is no folder that can be watched")
    usual = watchfiles.DefaultFilter()

    def matters(change: watchfiles.Change, path: str) -> bool:
        return path.endswith(_MATTER) and CACHE_FOLDER not in path and usual(change, path)

    again = False
    # The first item comes as soon as changes are noted: none is missed while the files are checked.
    for changes in watchfiles.watch(*folders, watch_filter=matters, rust_timeout=_MILLISECONDS, yield_on_timeout=True):
        if again and not changes:
            continue
        if again and sys.stdout.isatty():
            print("\033[2J\033[H", end="")
        again = True
        run(options)
        sys.stdout.flush()
        if not options.quiet:
            print("Watching for changes; Ctrl-C ends it.", file=sys.stderr, flush=True)
    return CLEAN
