"""`torchperf-lint clean`: removes the caches in this folder, the folders below it, and the project around it."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from torchperf_lint.check import CLEAN, complain
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.project_root import root_of
from torchperf_lint.options import Parser
from torchperf_lint.report import printable
from torchperf_lint.syntax.identity import key_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = command_parser().parse_args(arguments)
    status = CLEAN
    for path in sorted({each for each in _caches() if os.path.isdir(each) and not os.path.islink(each)}):
        if not options.quiet:
            print(f"Removing cache at: {printable(path)}", file=sys.stderr)
        try:
            shutil.rmtree(path)
        except OSError as error:
            status = complain(f"torchperf-lint: error: {path} cannot be removed: {error.strerror}")
    return status


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = Parser(
        prog="torchperf-lint clean",
        description="Remove the caches in this folder, the folders below it, and the root of the project around it.",
        allow_abbrev=False,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="do not print what is removed")
    return parser


def _caches() -> Iterator[str]:
    """Where caches may be."""
    for folder, folders, _ in os.walk(os.curdir):
        if CACHE_FOLDER in folders:
            folders.remove(CACHE_FOLDER)
            yield os.path.normpath(os.path.join(folder, CACHE_FOLDER))
    around = os.path.relpath(root_of([key_of(os.path.join(os.curdir, "any"))]))
    yield os.path.normpath(os.path.join(around, CACHE_FOLDER))
