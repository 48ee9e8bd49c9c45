"""Runs the linter over the notebooks that public packages ship: crashes, and what `--fix` changes beside the cells.

`python benchmarks/notebooks.py [--folder DIR] [--project NAME]` brings the packages of notebooks.tsv from PyPI, lints
their notebooks and fixes copies of them; packages that ship none are not in the table. It fails where a figure is not
that of the table; `--record` writes that. Columns: `unread` notebooks with a cell that cannot be checked; `crashes`
runs that gave no report or an internal error; `outside` changed bytes that belong to no cell's source; `broken` fixed
notebooks that are no JSON any more; `unstable` those that a second run changes again.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from first_contact import bring
from linter import lint

TABLE = Path(__file__).with_name("notebooks.tsv")
DEFAULT_FOLDER = Path.home() / ".cache" / "torchperf-lint-notebooks"
FIX = ("--fix", "--unsafe-fixes")

# Its text is one string, or a list of them.
_STRING = rb'"(?:[^"\\]|\\.)*"'
_SOURCE = re.compile(rb'((?<!\\)"source"\s*:\s*)(?:\[[\s,]*(?:' + _STRING + rb"[\s,]*)*\]|" + _STRING + rb")")


class Row(NamedTuple):
    """The figures of one package."""

    package: str
    version: str
    notebooks: int
    cells: int
    findings: int
    changed: int
    unread: int
    crashes: int
    outside: int
    broken: int
    unstable: int


def recorded(path: Path = TABLE) -> list[Row]:
    """The rows of the table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    return [Row(row[0], row[1], *map(int, row[2:])) for row in rows[1:]]


def outside(before: bytes, after: bytes) -> int:
    """The number of bytes that differ beside the sources of cells."""
    old, new = (_SOURCE.sub(rb"\1", text) for text in (before, after))
    return sum(one != other for one, other in zip(old, new)) + abs(len(old) - len(new))  # noqa: B905


def code_cells(data: bytes) -> int | None:
    """The number of code cells; None where the bytes are no notebook."""
    try:
        cells = json.loads(data)["cells"]
        return sum(each["cell_type"] == "code" for each in cells)
    except (ValueError, KeyError, TypeError):
        return None


def contents(folder: Path) -> dict[str, bytes]:
    """Every notebook below the folder by its path there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.ipynb"))}


def examine(package: str, version: str, folder: Path) -> Row:
    """All runs over the notebooks of one package, in copies."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(folder, copy)
        before = contents(copy)
        paths = tuple(before)
        reports = [lint(copy, "--select=ALL", *options, paths=paths) for options in ((), FIX)]
        fixed = contents(copy)
        reports.append(lint(copy, "--select=ALL", *FIX, paths=paths))
        again = contents(copy)
    changed = [path for path in before if before[path] != fixed[path]]
    return Row(
        package,
        version,
        notebooks=len(before),
        cells=sum(code_cells(data) or 0 for data in before.values()),
        findings=len(reports[0].findings),
        changed=len(changed),
        unread=len({line.partition(":")[0] for line in reports[0].complaints if ": error: " in line}),
        crashes=sum(each.crashed or "internal error" in "".join(each.complaints) for each in reports),
        outside=sum(outside(before[path], fixed[path]) for path in changed),
        broken=sum(code_cells(before[path]) != code_cells(fixed[path]) for path in changed),
        unstable=sum(again[path] != fixed[path] for path in before),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where the packages lie")
    parser.add_argument("--project", metavar="NAME", help="this package only")
    parser.add_argument("--record", action="store_true", help="write the table")
    options = parser.parse_args()
    rows, status = [], 0
    print(*Row._fields, sep="\t")
    for told in recorded():
        row, folder = told, options.folder / f"{told.package}-{told.version}"
        if options.project in (None, told.package):
            try:
                if not folder.is_dir():
                    bring(told.package, told.version, folder, suffixes=(".py", ".ipynb"), source=True)
            except subprocess.CalledProcessError:
                print(f"{told.package} {told.version} cannot be brought", file=sys.stderr)
                status = 1
            else:
                row = examine(told.package, told.version, folder)
                print(*row, sep="\t", flush=True)
                status |= row != told
        rows.append(row)
    if not options.record:
        return status
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows([Row._fields, *rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
