"""Runs programs in the style of users on the simulated device, and tells which of their waiting lines are found.

The programs (vision, language, reinforcement learning, generative models, science, small frameworks and libraries) were
written without a look at the linter, so they measure it where it was not tuned; a rule that is mended for one of them
is not measured by it any more. So there are rounds of new programs: 56 in written.tar.xz, 48 in written2.tar.xz, 40 in
written3.tar.xz, 18 in written4.tar.xz, 20 in written5.tar.xz, written6.tar.xz and written7.tar.xz each, 14 in
written8.tar.xz, 12 small libraries with an example each in written9.tar.xz, and 12 in written10.tar.xz,
written11.tar.xz and written12.tar.xz each, six of the last libraries again. `--committed` prints the first run of each,
which the tables beside them keep and nobody edits. Otherwise `--python` names a Python with torch, torchmetrics, tqdm,
scipy, scikit-learn, einops, tensorboard, gymnasium and pytorch-lightning, and the programs of a `--round` (the last
one) run anew; `--lines` prints the lines that are missed. `--fixes` runs them before and after our fixes instead,
prints the waits that are left and whether they print the same, and with `--lines` what differs; tables keep the first
of these runs, too.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import inherent
import written_fixes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
ROUNDS = {1: "written", **{number: f"written{number}" for number in range(2, 13)}}
"""By round, the name of the archive of its programs and of the table of their first run."""
WITHOUT_FIXES = {5}
"""Rounds that the fixes were not run on before the linter was mended for them."""
OFTEN = 0.5
"""A line with so many waits per step runs in every step, or in every other one, and is not throttled."""
LINT = (sys.executable, "-m", "torchperf_lint")
TIME_LIMIT = 600

_Measured = TypeVar("_Measured")


class Row(NamedTuple):
    """A program: its waiting lines and those found, its waits per step and those found, findings that never waited.

    Of the lines, `often` wait in at least every other step; the table of the first round does not tell them. Of these,
    `inherent` are missed and no mistake, with `waits_inherent` of the waits; the first three tables do not tell that.
    Of the findings, `not_seen_waits` are of rules about waits; -1 where the table does not tell.
    """

    program: str
    lines: int
    found: int
    waits: float
    waits_found: float
    not_seen: int
    often: int = 0
    often_found: int = 0
    inherent: int = 0
    waits_inherent: float = 0.0
    not_seen_waits: int = -1


def programs(number: int) -> Path:
    """The archive of a round's programs."""
    return HERE / f"{ROUNDS[number]}.tar.xz"


def recorded(number: int) -> list[Row]:
    """The figures of a round's first run."""
    with (HERE / f"{ROUNDS[number]}.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))[1:]
    return [
        Row(
            *(row[0], *map(int, row[1:3]), *map(float, row[3:5]), *map(int, row[5:9])),
            *(*map(float, row[9:10]), *map(int, row[10:])),
        )
        for row in rows
    ]


def row_of(program: str, report: dict[str, Any], folder: Path) -> Row:
    """The figures of a report of `torchperf-lint verify --script` on the program in a folder."""
    lines = [line for loop in report["loops"] for line in loop["lines"] if line["waits_per_step"]]
    found = [line for line in lines if line["findings"]]
    waits, waits_found = (round(sum(line["waits_per_step"] for line in some), 3) for some in (lines, found))
    often = [line for line in lines if line["waits_per_step"] >= OFTEN]
    often_found = sum(bool(line["findings"]) for line in often)
    missed = [line for line in lines if not line["findings"] and is_no_mistake(line, folder)]
    known = sum(line["waits_per_step"] >= OFTEN for line in missed), round(sum(x["waits_per_step"] for x in missed), 3)
    counts = len(report["not_seen"]), len(often), often_found
    about_waits = sum((each.get("cost") or {}).get("loses") == "wait" for each in report["not_seen"])
    return Row(program, len(lines), len(found), waits, waits_found, *counts, *known, about_waits)


def is_no_mistake(line: dict[str, Any], folder: Path) -> bool:
    """Whether a waiting line of a report is a backward pass, or waits in functions of torch that have to."""
    place = line["location"]
    text = (folder / place["filename"]).read_text(encoding="utf-8").splitlines()[place["row"] - 1]
    ways = [each["via"] for each in line["operators"] if each["waits_per_step"]]
    inside = bool(ways) and all(way is not None and inherent.is_inside(way["filename"]) for way in ways)
    return inside or inherent.is_backward(text)


def run(folder: Path, python: str) -> dict[str, Any]:
    """The report on a program; it has no loops where it did not run."""
    options = ("verify", "--script", "main.py", "--device", "sim", "--output-format", "json", "--python", python)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*LINT, *options], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def tell(rows: list[Row]) -> None:
    """Print the totals."""
    lines, found = sum(row.lines for row in rows), sum(row.found for row in rows)
    waits, waits_found = sum(row.waits for row in rows), sum(row.waits_found for row in rows)
    print(f"{len(rows)} programs that ran")
    if not lines:
        return
    print(f"waiting lines found: {found} of {lines} ({found / lines:.0%})")
    often, often_found = sum(row.often for row in rows), sum(row.often_found for row in rows)
    if often:
        print(f"of those that wait in at least every other step: {often_found} of {often} ({often_found / often:.0%})")
    print(f"waits found: {waits_found:.5g} of {waits:.5g} per step ({waits_found / waits:.0%})")
    spared, waits_spared = sum(row.inherent for row in rows), sum(row.waits_inherent for row in rows)
    left, waits_left = often - spared, waits - waits_spared
    if (spared or waits_spared) and left and waits_left:
        print(
            "without checkpoints, scalers, averages of models, packed sequences and backward passes: "
            f"{often_found} of {left} lines ({often_found / left:.0%}), {waits_found / waits_left:.0%} of the waits"
        )
    about_waits = [row.not_seen_waits for row in rows]
    of_these = "" if -1 in about_waits else f", {sum(about_waits)} of them about waits"
    print(f"findings on lines that ran and never waited: {sum(row.not_seen for row in rows)}{of_these}")


def tell_fixes(rows: list[written_fixes.Row]) -> None:
    """Print the totals of the runs before and after fixes."""
    for line in written_fixes.told(rows):
        print(line)


@contextlib.contextmanager
def laid_out(number: int, texts: list[str]) -> Iterator[dict[str, Path]]:
    """The folders of the programs with one of these texts in their names, by name, while the programs lie there."""
    with (
        tempfile.TemporaryDirectory(prefix="torchperf-lint-written-") as scratch,
        tarfile.open(programs(number)) as archive,
    ):
        archive.extractall(scratch, filter="data")
        folders = sorted(path.parent for path in Path(scratch).glob("*/*/main.py"))
        names = {folder.relative_to(scratch).as_posix(): folder for folder in folders}
        yield {name: folder for name, folder in names.items() if any(text in name for text in texts or [""])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="TEXT", help="only programs with one of these in their names")
    parser.add_argument("--committed", action="store_true", help="run nothing, and print the first run")
    parser.add_argument("--round", type=int, choices=ROUNDS, default=max(ROUNDS), help="which programs (%(default)s)")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python to run them with")
    parser.add_argument("--lines", action="store_true", help="print the waiting lines that are missed")
    parser.add_argument("--fixes", action="store_true", help="run them before and after fixes, and compare")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="programs at a time")
    options = parser.parse_args()
    if options.committed:
        for number, name in ROUNDS.items():
            print(f"Round {number}")
            tell(recorded(number))
            if number not in WITHOUT_FIXES:
                tell_fixes(written_fixes.recorded(name))
        return 0
    with laid_out(options.round, options.programs) as folders:
        if options.fixes:
            return fixes_measured(folders, options)
        return findings_measured(folders, options)


def findings_measured(folders: dict[str, Path], options: argparse.Namespace) -> int:
    """Run the programs as they are, and tell what is found of their waits."""
    rows = []
    for name, report in in_turn(folders, options.jobs, lambda name: run(folders[name], options.python)):
        if report["status"] != "ok":
            print(f"{name} did not run: {report['error']}")
            continue
        rows.append(row_of(name, report, folders[name]))
        for line in (line for loop in report["loops"] for line in loop["lines"]) if options.lines else ():
            if line["waits_per_step"] and not line["findings"]:
                place, operators = line["location"], ",".join(each["name"] for each in line["operators"])
                print(f"{name}/{place['filename']}:{place['row']} {line['waits_per_step']} {operators}")
    if rows:
        tell(rows)
    return 0 if rows else 1


def fixes_measured(folders: dict[str, Path], options: argparse.Namespace) -> int:
    """Run the programs before and after fixes, and tell what these spare; the status is 1 where a safe one changes."""
    rows = []
    measure = written_fixes.measure
    for name, measured in in_turn(folders, options.jobs, lambda name: measure(name, folders[name], options.python)):
        if measured is None:
            print(f"{name} did not run")
            continue
        rows.append(measured[0])
        print(written_fixes.row_told(rows[-1]), flush=True)
        for note in measured[1] if options.lines else ():
            print(f"    {note}")
    if rows:
        tell_fixes(rows)
    wrong = any(row.safe_prints != written_fixes.SAME or row.unsafe_prints == written_fixes.FAILS for row in rows)
    return 0 if rows and not wrong else 1


def in_turn(
    folders: dict[str, Path], jobs: int, measure: Callable[[str], _Measured]
) -> Iterator[tuple[str, _Measured]]:
    """What each program gives, in order, some of them at a time."""
    with ThreadPoolExecutor(jobs) as threads:
        yield from zip(folders, threads.map(measure, folders), strict=True)


if __name__ == "__main__":
    sys.exit(main())
