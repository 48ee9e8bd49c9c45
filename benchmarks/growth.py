"""Measures how CPU time and memory grow with the files of a project, from 10 files to 5,000.

Every tree is one project, made of whole corpus projects from PyPI, smallest first, and contains the smaller trees; of
its last project it has the first files by path. No file is in it twice. Each is linted cold,
by a process of its own on one core, with all rules, and parsed by a bare `libcst.parse_module` in another. By default
trees of up to 1,000 files are linted; `--full` continues to 5,000 files, or to as many as there are, which takes an
hour or more. A run is stopped after `--limit` CPU seconds.

The exponents are the slopes of the logarithms over megabytes of source, from 100 files on, where start-up no longer
counts: 1 is proportional to the code.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import DEFAULT_CORPUS, projects, python_files
from linter import COMMAND
from processes import cost_of
from speed import BARE_PARSE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from processes import Cost

SIZES, MORE_SIZES = (10, 30, 100, 300, 1_000), (3_000, 5_000)
ENOUGH = 100
FINE = (0, 2)  # 2: files of a newer grammar than the running Python's are complained about


class Point(NamedTuple):
    """One tree: its files and megabytes, and the costs of parsing and linting it."""

    files: int
    megabytes: float
    parse: Cost
    lint: Cost

    @property
    def finished(self) -> bool:
        """Whether both runs finished."""
        return self.parse.status == 0 and self.lint.status in FINE


def in_order(corpus: Path, names: Sequence[str]) -> list[Path]:
    """All files, those of the smallest project first; paths below the corpus."""
    by_project = sorted((python_files(corpus / name) for name in names), key=len)
    return [path.relative_to(corpus) for files in by_project for path in files]


def measure(corpus: Path, files: Sequence[Path], limit: int) -> Point:
    """Lint and parse a project made of these files."""
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place).resolve()
        folder = scratch / "tree"
        for path in files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(corpus / path, target)
        (folder / "pyproject.toml").touch()  # the project's root
        listed = scratch / "files.txt"
        listed.write_text("\n".join(str(folder / path) for path in files), encoding="utf-8")
        options = ["--select=ALL", "--no-cache", "-j1", "--output-format=concise", "."]
        lint = cost_of([*COMMAND, *options], folder, limit=limit)
        parse = cost_of([sys.executable, "-c", BARE_PARSE, str(listed)], folder, limit=limit)
        return Point(len(files), sum((folder / path).stat().st_size for path in files) / 1e6, parse, lint)


def exponent(points: Sequence[Point], cost: Callable[[Point], float]) -> float:
    """The slope of log(cost) over log(megabytes), by least squares."""
    sizes = [math.log(point.megabytes) for point in points]
    return statistics.linear_regression(sizes, [math.log(cost(point)) for point in points]).slope


def report(point: Point, limit: int) -> None:
    """Print a line of the table."""
    start = f"{point.files:>6}{point.megabytes:>8.2f}"
    if point.finished:
        ratio = point.lint.cpu / point.parse.cpu
        costs = f"{point.parse.cpu:>10.2f}{point.lint.cpu:>10.2f}{ratio:>8.2f}{point.lint.cpu / point.megabytes:>8.2f}"
        print(f"{start}{costs}{point.parse.peak:>10.0f}{point.lint.peak:>10.0f}", flush=True)
    else:
        statuses = f"parse {point.parse.status}, linter {point.lint.status}"
        print(f"{start}   given up: exit statuses {statuses}; the limit is {limit} CPU seconds", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=DEFAULT_CORPUS, metavar="DIR", help="where the projects lie")
    parser.add_argument("--full", action="store_true", help="go on to 5,000 files: an hour or more")
    parser.add_argument("--limit", type=int, default=3_600, metavar="S", help="CPU seconds of a run (default 3600)")
    options = parser.parse_args()
    names = [project.name for project in projects() if project.kind == "pypi"]
    lacking = [name for name in names if not (options.corpus / name).is_dir()]
    if lacking:
        print(f"the trees lack {', '.join(lacking)}; benchmarks/corpus.py --pypi brings them")
    files = in_order(options.corpus, names)
    if not files:
        raise SystemExit(f"none of the projects lies in {options.corpus}")
    sizes = (*SIZES, *(MORE_SIZES if options.full else ()))
    print(f"{len(files):,} files are there, up to {min(max(sizes), len(files)):,} are linted")
    print(f"{'':14}{'CPU seconds':^36}{'peak MB':>14}")
    print(f"{'files':>6}{'MB':>8}{'parse':>10}{'linter':>10}{'ratio':>8}{'per MB':>8}{'parse':>10}{'linter':>10}")
    points = []
    for size in sizes:
        point = measure(options.corpus, files[:size], options.limit)
        report(point, options.limit)
        points.append(point)
        if not point.finished or size >= len(files):
            break
    done = [point for point in points if point.finished and point.files >= ENOUGH]
    if len(done) > 1:
        print(
            f"exponents: parse, CPU {exponent(done, lambda point: point.parse.cpu):.2f}; "
            f"linter, CPU {exponent(done, lambda point: point.lint.cpu):.2f}, "
            f"memory {exponent(done, lambda point: point.lint.peak):.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
