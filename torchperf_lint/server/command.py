"""The command `torchperf-lint server`: its options, and what is missing where it cannot start."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from torchperf_lint import __version__
from torchperf_lint.options import Parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_NEEDS = "torchperf-lint: error: the server needs pygls: pip install 'torchperf-lint[server]'"


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = Parser(
        prog="torchperf-lint server",
        description="A language server on standard input and output, for editors.",
    )
    parser.add_argument("--stdio", action="store_true", help="the default, which some editors name")
    parser.add_argument("--check", action="store_true", help="say whether the server can start, and stop")
    parser.add_argument("--no-cache", action="store_true", help="do not store anything for the next start")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Serve on standard input and output until the client says exit; return the exit status."""
    options = command_parser().parse_args(arguments)
    if importlib.util.find_spec("pygls") is None:
        print(_NEEDS, file=sys.stderr)
        return 2
    if options.check:
        print(f"torchperf-lint {__version__}")
        return 0
    from torchperf_lint.server.service import serve

    return 0 if serve(cached=not options.no_cache) else 1
