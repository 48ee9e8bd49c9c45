"""`torchperf-lint why FILE:LINE`, or `FILE:cell 3:LINE` of a notebook: why a row is reported, or is not."""

from __future__ import annotations

import argparse
import functools
import os
import re
from typing import TYPE_CHECKING

from torchperf_lint.check import CLEAN, FINDINGS, complain
from torchperf_lint.config import BadConfig
from torchperf_lint.engine.files import CACHE_FOLDER, unreadable
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.mishaps import one_line
from torchperf_lint.engine.names import is_notebook, why_no_python
from torchperf_lint.options import OF_SETTINGS, settings_for
from torchperf_lint.report import printable
from torchperf_lint.syntax.recursion import with_room
from torchperf_lint.syntax.source import Unreadable
from torchperf_lint.why import text
from torchperf_lint.why.answer import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from torchperf_lint.why.answer import Answer

_DESCRIPTION = """\
Tell why a line is reported, or is not: how often it runs, what is known of its values, and
what each rule concluded."""

_EPILOG = """\
The file is checked as a part of its project and with its configuration, as by `torchperf-lint FILE`.

Exit status: 0 nothing is reported on the line, 1 something is, 2 the file or the line cannot be read."""

_PLACE = re.compile(r"(?P<path>.+?)(?::cell ?(?P<cell>\d+))?:(?P<row>\d+)(?::(?P<column>\d+))?")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(message)}\n")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    parser = command_parser()
    options = parser.parse_args(arguments)
    place = _PLACE.fullmatch(options.place)
    if place is None:
        parser.error(f"`{options.place}` names no row: FILE:LINE or FILE:LINE:COLUMN is needed")
    path, row = place["path"], int(place["row"])
    cell, column = (None if place[name] is None else int(place[name]) for name in ("cell", "column"))
    try:
        answer = _answer(path, cell, row, column, options)
    except BadConfig as error:
        return complain(str(error.failure))
    except Unreadable as error:
        return complain(str(Failure(path, error.row, error.column, one_line(error.reason))))
    except OSError as error:
        return complain(str(unreadable(path, error)))
    if options.output_format == "json":
        from torchperf_lint.why import json

        print(json.render(answer))
    else:
        for line in text.render(answer):
            print(line)
    return FINDINGS if any(each.state is State.REPORTED for each in answer.verdicts) else CLEAN


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = _Parser(
        prog="torchperf-lint why",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    said = "the line, and the column in it, as in the output of findings; in a notebook FILE:cell 3:LINE"
    add("place", metavar="FILE:LINE[:COLUMN]", help=said)
    add("--output-format", choices=("text", "json"), default="text", help="the output's format (default text)")
    add("--config", metavar="FILE", help="read the configuration from this file")
    add("--isolated", action="store_true", help="read no configuration and no requirement files")
    add("--no-cache", action="store_true", help="do not store anything for the next run")
    add("--cache-dir", metavar="DIR", help="the cache's folder (default: .torchperf_lint_cache in the project's root)")
    parser.set_defaults(**OF_SETTINGS)
    return parser


def _answer(path: str, cell: int | None, row: int, column: int | None, options: argparse.Namespace) -> Answer:
    """The answer; raise OSError, Unreadable or BadConfig where there is none."""
    with open(path, "rb") as file:
        data = file.read()
    reason = why_no_python(path)
    if reason is not None:
        raise Unreadable(reason)
    if is_notebook(path) and cell is None:
        raise Unreadable("a line of a notebook is one of a cell: `FILE:cell 3:LINE` is needed")
    if cell is not None and not is_notebook(path):
        raise Unreadable(f"it is no notebook, and has no cell {cell}")
    settings = settings_for(argparse.Namespace(**{**vars(options), "paths": [path]}))
    cache = None if options.no_cache else os.path.abspath(options.cache_dir) if options.cache_dir else CACHE_FOLDER
    how = settings, cache, not options.isolated
    if cell is not None:
        from torchperf_lint.why.in_cell import ask_in_cell

        return with_room(functools.partial(ask_in_cell, path, data, cell, row, column, *how))
    from torchperf_lint.why.asking import ask

    return with_room(functools.partial(ask, path, data, row, column, *how))
