"""Lists findings that tuning-set files have alone and not within their projects, and compares them with `alone.tsv`.

More knowledge may refute a finding, but must lose no true one. So each such finding was read in its context and has a
verdict in `alone.tsv`: `refuted` with the reason that the project shows, or `lost`. A finding without a verdict, a lost
one and a verdict without its finding are reported, and make the exit status 1. `python benchmarks/alone.py DIR` lists
those of any folder, without verdicts.
"""

from __future__ import annotations

import csv
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import corpus_parser, present
from linter import Found

from torchperf_lint.engine import registry
from torchperf_lint.engine.files import discover
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).with_suffix(".tsv")
COLUMNS = ("project", "version", "path", "line", "code", "verdict", "why")
VERDICTS = ("refuted", "lost")


class Verdict(NamedTuple):
    """The verdict on a finding that a file has only alone."""

    verdict: str
    why: str


def verdicts(table: Path) -> dict[tuple[str, str, Found], Verdict]:
    """The lines of the table by project, version and finding; exits with the line's number where one is malformed."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise SystemExit(f"{table}:1: the columns must be {', '.join(COLUMNS)}")
    judged = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(COLUMNS) or not row[3].isdecimal() or row[5] not in VERDICTS or not row[6]:
            raise SystemExit(f"{table}:{number}: wanted {len(COLUMNS)} columns, a line number and one of {VERDICTS}")
        project, version, path, line, code, verdict, why = row
        judged[project, version, Found(path, int(line), code)] = Verdict(verdict, why)
    return judged


def only_alone(folder: Path) -> Iterator[tuple[Found, str]]:
    """The findings, of any rule, and their messages that the folder's files have alone and not within their project."""
    rules, hints, target = registry.all_rules(), Hints(), Target()
    before = Path.cwd()
    os.chdir(folder)
    try:
        files = discover(["."]).files
        program = functools.cache(gather(files, hints).program)
        for path in files:
            data = Path(path).read_bytes()
            alone = check_source(path, data, rules, target, hints).diagnostics
            if alone:
                known = check_source(path, data, rules, target, hints, program=program).diagnostics
                kept = {(each.code, each.row) for each in known}
                for each in alone:
                    if (each.code, each.row) not in kept:
                        yield Found(Path(path).as_posix(), each.row, each.code), each.message
    finally:
        os.chdir(before)


def main() -> int:
    parser = corpus_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR", help="this folder instead of the tuning set")
    options = parser.parse_args()
    if options.folder is not None:
        for (path, line, code), message in only_alone(options.folder):
            print(f"{path}:{line}: {code} {message}", flush=True)
        return 0
    judged = verdicts(TABLE)
    complaints = 0
    for project in present(options.corpus, options.project):
        mine = {found: judged[key] for key in judged for found in key[2:] if key[:2] == (project.name, project.version)}
        seen = set()
        for found, message in only_alone(options.corpus / project.name):
            seen.add(found)
            verdict = mine.get(found)
            told = "no verdict" if verdict is None else f"{verdict.verdict}: {verdict.why}"
            complaints += verdict is None or verdict.verdict != "refuted"
            print(f"{project.name}/{found.path}:{found.line}: {found.code} {message}\n    {told}", flush=True)
        for found in mine.keys() - seen:
            complaints += 1
            print(f"{project.name}/{found.path}:{found.line}: {found.code} has a verdict and is no difference any more")
    print(f"{complaints} to look at")
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main())
