"""Lints, fixes and lints again the projects of the tuning set, and counts failures.

`python benchmarks/real_input.py [--corpus DIR] [--project NAME]`. The corpus itself is never written to. Columns:
`changed` files that --fix (and with --unsafe-fixes) rewrote; `broken` rewritten files that compiled before and no
longer do; `unstable` files that a second run of the same fixes changes again; `failed` complaints of the linter about
files that Python compiles, and runs that crashed or gave no report. Exit status 1 if any of the last three is not 0.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import Project, corpus_parser, present, python_files
from linter import Report, lint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GRADES = (("--fix",), ("--fix", "--unsafe-fixes"))


class Row(NamedTuple):
    """The results of the runs over one project."""

    name: str
    files: int
    lines: int
    rules: Counter[str]
    changed: tuple[int, ...]  # one for each of GRADES
    broken: list[str]
    unstable: list[str]
    failed: list[str]


def compiles(code: bytes, path: str) -> bool:
    """Whether the running Python compiles `code`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def contents(folder: Path) -> dict[str, bytes]:
    """Every Python file below `folder` by its path there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in python_files(folder)}


def differences(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """The paths whose bytes differ, or that are on one side only."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def failures(report: Report, files: dict[str, bytes]) -> list[str]:
    """The linter's complaints except those about files that do not compile."""
    own = [line for line in report.complaints if ": error: " in line and not _about_bad_file(line, files)]
    return [*own, "the run gave no report, or a traceback"] if report.crashed else own


def _about_bad_file(line: str, files: dict[str, bytes]) -> bool:
    path = Path(line.split(":", 1)[0]).as_posix()
    return path in files and not compiles(files[path], path)


def examine(project: Project, corpus: Path) -> Row:
    """All runs over one project."""
    with tempfile.TemporaryDirectory() as scratch:
        pristine = Path(scratch) / "pristine"
        shutil.copytree(corpus / project.name, pristine)
        before = contents(pristine)
        report = lint(pristine)
        failed = failures(report, before)
        changed, broken, unstable = [], [], []
        for number, options in enumerate(GRADES):
            copy = Path(scratch) / f"fixed{number}"
            shutil.copytree(pristine, copy)
            marked = f" ({' '.join(options)})"
            failed += [line + marked for line in failures(lint(copy, *options), before)]
            once = contents(copy)
            rewritten = differences(before, once)
            changed.append(len(rewritten))
            broken += [
                path + marked
                for path in rewritten
                if compiles(before[path], path) and not compiles(once.get(path, b"\0"), path)
            ]
            failed += [f"{line}{marked}, second run" for line in failures(lint(copy, *options), once)]
            unstable += [path + marked for path in differences(once, contents(copy))]
    lines = sum(text.count(b"\n") for text in before.values())
    rules = Counter(finding.code for finding in report.findings)
    return Row(project.name, len(before), lines, rules, tuple(changed), broken, unstable, failed)


def table(rows: Sequence[Sequence[object]]) -> Iterable[str]:
    """The lines of a table: first column left-aligned, the others right-aligned."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *right])


def summary(rows: Sequence[Row]) -> Iterable[str]:
    """One line per project: how much there is, how much is found, what went wrong."""
    head = ("project", "files", "lines", "found", "per 1,000", "changed", "unsafe", "broken", "unstable", "failed")
    body = []
    for row in rows:
        found = row.rules.total()
        rate = f"{1000 * found / row.lines:.2f}" if row.lines else "-"
        wrong = (len(row.broken), len(row.unstable), len(row.failed))
        body.append((row.name, row.files, row.lines, found, rate, *row.changed, *wrong))
    return table([head, *body])


def rule_counts(rows: Sequence[Row]) -> Iterable[str]:
    """One line per rule: its findings in each project and in all."""
    codes = sorted({code for row in rows for code in row.rules})
    head = ("rule", *(row.name[:8] for row in rows), "all")
    body = [(code, *(row.rules[code] or "." for row in rows), sum(row.rules[code] for row in rows)) for code in codes]
    return table([head, *body])


def main() -> int:
    options = corpus_parser(__doc__).parse_args()
    rows = []
    for project in present(options.corpus, options.project):
        print(f"{project.name} ...", file=sys.stderr)
        rows.append(examine(project, options.corpus))
    print(*summary(rows), "", *rule_counts(rows), sep="\n")
    wrong = [
        f"{row.name}: {kind}: {line}"
        for row in rows
        for kind, listed in (("broken", row.broken), ("unstable", row.unstable), ("failed", row.failed))
        for line in listed
    ]
    if wrong:
        print("", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
