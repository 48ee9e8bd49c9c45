"""Runs the programs in the style of users as they stand, after `--fix` and after `--unsafe-fixes`, and compares them.

`python benchmarks/written.py --fixes` prints what this module measures. Waits are those of all lines of a program, per
step of its loops. Seconds, and what two unfixed runs print differently, say nothing of a fix.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import inherent
from linter import lint

from torchperf_lint.verify.child import OK
from torchperf_lint.verify.effects import KINDS, PRINTED, Difference, differences
from torchperf_lint.verify.runs import Run, run_program
from torchperf_lint.verify.workloads import Agreement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TIME_LIMIT = 900.0
ROUNDING = 1e-3
"""By how much printed numbers, which have few digits, may differ relatively where sums are rounded otherwise."""

SAME, ROUNDED, DIFFERENT, FAILS = VERDICTS = ("same", "rounded", "differs", "fails")
"""What a fixed program prints beside the unfixed one: the same, other last digits, something else, or no end."""

_SECONDS = re.compile(
    r"(?<=\btime: )\d+\.\d+|\d+(?:\.\d+)?(?= ?(?:s|ms|sec|seconds|it/s)\b)"
    r"|(?<=[\[<])(?:\d+:)?\d\d:\d\d(?=[<,\]])"  # a progress bar's
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Row(NamedTuple):
    """A program: its waits per step unfixed, after the safe fixes and after all, and what it prints after them.

    `inherent` of the unfixed waits are torch's own; the tables of the first three rounds do not tell them.
    """

    program: str
    waits: float
    safe: float
    unsafe: float
    safe_prints: str
    unsafe_prints: str
    inherent: float = 0.0


def recorded(name: str) -> list[Row]:
    """The figures of the first run on the programs of an archive with this name."""
    with Path(__file__).with_name(f"{name}_fixes.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    return [Row(row[0], *map(float, row[1:4]), *row[4:6], *map(float, row[6:])) for row in rows[1:]]  # type: ignore[arg-type]


def measure(program: str, source: Path, python: str) -> tuple[Row, list[str]] | None:
    """The figures of a program, and what differs after its fixes; None if it does not run as it stands."""
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-written-") as scratch:
        folder = Path(scratch, "program")
        shutil.copytree(source, folder)
        before = _run(folder, python)
        if before.status != OK:
            return None
        known, mended, notes = {texts(folder): (before, SAME)}, [], []
        for options in (("--fix",), ("--fix", "--unsafe-fixes")):
            shutil.rmtree(folder)
            shutil.copytree(source, folder)
            if lint(folder, "--no-cache", *options).crashed:
                raise SystemExit(f"{program}: the linter failed")
            text = texts(folder)
            if text not in known:
                after = _run(folder, python)
                verdict, differing = _judged(before, after, source, folder, python)
                notes += [f"{program} {options[-1]}: {each}" for each in differing]
                known[text] = after, verdict
            mended.append(text)
    (safe, safe_prints), (unsafe, unsafe_prints) = (known[text] for text in mended)
    waits = [round(float(run.counts().waits), 3) for run in (before, safe, unsafe)]
    lines = [line for loop in before.loops() for line in loop.lines if line.via is not None]
    own = sum(float(line.waits) for line in lines if line.via is not None and inherent.is_inside(line.via.file))
    return Row(program, *waits, safe_prints, unsafe_prints, round(own, 3)), notes


def _run(folder: Path, python: str) -> Run:
    return run_program(folder / "main.py", "sim", python=python, time_limit=TIME_LIMIT)


def texts(folder: Path) -> tuple[bytes, ...]:
    """The program's files, as they are."""
    return tuple(path.read_bytes() for path in sorted(folder.rglob("*.py")))


def _judged(before: Run, after: Run, source: Path, folder: Path, python: str) -> tuple[str, list[str]]:
    """What a fixed program prints beside the unfixed one, which runs again where something differs, and the places."""
    if after.status != OK:
        return FAILS, [f"{after.report['error']}, at {after.report.get('failed_at')}"]
    found = list(differences(before, after, Agreement()))
    if not found:
        return SAME, []
    shutil.rmtree(folder)
    shutil.copytree(source, folder)
    by_itself = list(differences(before, _run(folder, python), Agreement()))
    new = [each for each in found if not any(each.is_within(other) for other in by_itself)]
    return verdict_of(new, before.stdout, after.stdout), [each.text for each in new]


def verdict_of(new: Iterable[Difference], before: str, after: str) -> str:
    """How far the printed lines of two runs agree, given what differs between them."""
    verdict = SAME
    for each in new:
        if each.aspect != PRINTED or each.place == KINDS:
            continue
        if not each.place:
            return DIFFERENT
        row = int(each.place[1:-1]) - 1
        was, now = (_SECONDS.sub("", text.split("\n")[row]) for text in (before, after))
        if not nearly(was, now):
            return DIFFERENT
        verdict = verdict if was == now else ROUNDED
    return verdict


def nearly(before: str, after: str) -> bool:
    """Whether two lines are the same but for the last digits of numbers."""
    if _NUMBER.sub("0", before) != _NUMBER.sub("0", after):
        return False
    pairs = zip(_NUMBER.findall(before), _NUMBER.findall(after), strict=True)
    return all(
        math.isclose(float(was), float(now), rel_tol=ROUNDING, abs_tol=1.01 * 10.0 ** -_decimals(was))
        for was, now in pairs
        if was != now
    )


def _decimals(number: str) -> int:
    """How many digits a printed number has behind its point; whole numbers have no last digit that is rounded."""
    digits, _, exponent = number.lower().partition("e")
    behind = len(digits.partition(".")[2])
    return behind - int(exponent or 0) if behind else 12


def told(rows: list[Row]) -> Iterator[str]:
    """The lines of the totals."""
    waits = sum(row.waits for row in rows)
    yield f"{len(rows)} programs that ran, and wait {waits:.5g} times per step"
    grades = (("--fix", "safe", "safe_prints"), ("--unsafe-fixes", "unsafe", "unsafe_prints"))
    for option, grade, prints in grades:
        left = sum(getattr(row, grade) for row in rows)
        spared = [1 - getattr(row, grade) / row.waits for row in rows if row.waits]
        avoided = [
            (row.waits - getattr(row, grade)) / (row.waits - row.inherent) for row in rows if row.waits > row.inherent
        ]
        unchanged = sum(getattr(row, grade) == row.waits for row in rows)
        yield (
            f"{option} leaves {left:.5g} waits per step: {1 - left / waits:.0%} less, {sum(spared) / len(spared):.0%} "
            f"in the mean of the programs; {unchanged} are left as they were"
        )
        if any(row.inherent for row in rows):
            yield f"  without the waits of torch's own: {sum(avoided) / len(avoided):.0%} less in the mean"
        counts = [sum(getattr(row, prints) == verdict for row in rows) for verdict in VERDICTS]
        yield (
            f"  they print the same: {counts[0]}, other last digits: {counts[1]}, something else: {counts[2]}, "
            f"no longer run: {counts[3]}"
        )


def row_told(row: Row) -> str:
    """The line of a program."""
    parts = (f"{row.program:<42}", *(f"{each:>9.5g}" for each in row[1:4]), f"  {row.safe_prints}, {row.unsafe_prints}")
    return "".join(parts)
