"""Runs a program as it stands and after our fixes, and lays its waits beside what the linter found in its packages."""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from copies import UNFIXED, VARIANTS, WRITTEN, lay_out, lint, mend
from kept_runs import kept

from torchperf_lint.verify import results
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.runs import run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalogue import Program
    from copies import Finding

    from torchperf_lint.verify.runs import Run

TIME_LIMIT = 600.0
MOST_CHARACTERS = 80

SYNCHRONISING = ("TPL1", "TPL2", "TPL301", "TPL302", "TPL303", "TPL308", "TPL309")
"""The beginnings of the codes that say that the host waits where the reported line runs."""

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MPLBACKEND": "Agg",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
}
"""What keeps programs from the network, and from windows."""


class WaitingLine(NamedTuple):
    """A package's line that waits in steady steps: how often per step, for what, and the codes found there."""

    path: str
    row: int
    waits: float
    operators: str
    codes: str


class Refuted(NamedTuple):
    """A finding of a synchronising rule on a package's line that ran, and never waited."""

    path: str
    row: int
    code: str


class Measured(NamedTuple):
    """What became of a program.

    Waits are per step of its loops, those of the packages' lines by variant, and `elsewhere` those of other lines;
    `differs` says by variant how results differ from those of the unfixed program, empty where they are equal, and
    `seconds` how long that one took.
    """

    program: str
    device: dict[str, str]
    steps: int
    waits: dict[str, float]
    elsewhere: float
    lines: list[WaitingLine]
    confirmed: int
    refuted: list[Refuted]
    differs: dict[str, str]
    seconds: float


class NotMeasured(Exception):
    """A program did not run to its end as it stands; the message says why."""


def measure(program: Program, python: Path, device: str, *, fresh: bool = False) -> Measured:
    """Run a program's three variants on a device and lint it; raises NotMeasured, LintFailed.

    Runs on the simulated device that are kept from before count, unless `fresh`.
    """
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-programs-") as scratch:
        unfixed = Path(scratch, UNFIXED)
        run, seconds = _run(program, unfixed, python, device, fresh=fresh)
        if run.status != OK:
            raise NotMeasured(what_happened(run))
        files = _loaded(run, unfixed)
        found = lint(unfixed, files)
        lines, confirmed, refuted = _join(found, run, unfixed, program)
        runs, waits = {UNFIXED: run}, {UNFIXED: _waits(run, unfixed, program)}
        for variant in WRITTEN:
            folder = Path(scratch, variant)
            same = _mended(variant, folder, program, python, files, found)
            if same is None:
                runs[variant], _ = _run(program, folder, python, device, fresh=fresh)
                waits[variant] = _waits(runs[variant], folder, program)
            else:
                runs[variant], waits[variant] = runs[same], waits[same]
    total = sum(float(line.waits) for line in run.lines())
    return Measured(
        program.name,
        run.report["device"],
        int(run.report["steps"]),
        {variant: round(each, 3) for variant, each in waits.items()},
        round(total - waits[UNFIXED], 3),
        lines,
        confirmed,
        refuted,
        {variant: _told(list(differences(run, runs[variant]))) for variant in WRITTEN},
        seconds,
    )


def _run(program: Program, folder: Path, python: Path, device: str, *, fresh: bool) -> tuple[Run, float]:
    """Run a program in a folder, which is laid out if nothing lies there yet, unless the same run is kept.

    The run comes with the seconds that it took.
    """
    if not folder.exists():
        _lay_out(program, folder, python)

    def run() -> tuple[Run, float]:
        began = time.perf_counter()
        given = run_apart(program, folder / program.script.name, python, device, rows=folder.name == UNFIXED)
        return given, round(time.perf_counter() - began, 1)

    return run() if fresh or device != "sim" else kept(folder, python, run)


def _lay_out(program: Program, folder: Path, python: Path) -> None:
    folder.mkdir()
    lay_out(program.script, program.packages, python, folder)


def _mended(
    variant: str, folder: Path, program: Program, python: Path, files: list[str], found: list[Finding]
) -> str | None:
    """Write a variant into a folder, unless it is byte for byte an earlier one, which is returned then."""
    earlier = [UNFIXED, *list(WRITTEN)[: list(WRITTEN).index(variant)]]
    if not any(finding.grade in WRITTEN[variant] for finding in found):
        return UNFIXED
    _lay_out(program, folder, python)
    mend(folder, files, VARIANTS[variant])
    texts = [(folder / file).read_bytes() for file in files]
    for other in earlier:
        beside = folder.with_name(other)
        if beside.exists() and texts == [(beside / file).read_bytes() for file in files]:
            return other
    return None


def _loaded(run: Run, folder: Path) -> list[str]:
    """The files below a folder that a run has loaded: what else the packages hold, no figure depends on."""
    paths = [os.path.relpath(os.path.realpath(file), os.path.realpath(folder)) for file in run.report["files"]]
    return [path for path in paths if not path.startswith(os.pardir)]


def run_apart(program: Program, script: Path, python: Path, device: str, *, rows: bool) -> Run:
    """Run a script's copy beside copies of its packages, whose lines count; with `rows`, note which of them ran."""
    include = [str(place) for name in program.packages for place in _places(script.parent, name)]
    return run_program(script, device, include=include, python=str(python), rows=rows, time_limit=TIME_LIMIT)


def _places(folder: Path, package: str) -> list[Path]:
    return [place for place in (folder / package, folder / f"{package}.py") if place.exists()]


def what_happened(run: Run) -> str:
    """How a run ended, and where."""
    if run.status == OK:
        return OK
    at = run.report.get("failed_at")
    return f"{run.status}: {run.report['error']}{f', at {at[0]}:{at[1]}' if at else ''}"


def _waits(run: Run, folder: Path, program: Program) -> float:
    return sum(float(line.waits) for line in run.lines() if _below(line.where.file, folder, program))


def _below(file: str, folder: Path, program: Program) -> str:
    """The path below the copy, of a file of the packages that count; else an empty text."""
    path = os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
    first = path.split(os.sep)[0].removesuffix(".py")
    return path if first in program.packages else ""


def _join(
    found: list[Finding], run: Run, folder: Path, program: Program
) -> tuple[list[WaitingLine], int, list[Refuted]]:
    """The packages' waiting lines with what was found there; how many findings ran and waited, and which never did."""
    about: defaultdict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in found:
        for row in range(finding.row, finding.end_row + 1):
            about[finding.path, row].append(finding)
        for place in finding.uses:
            about[place].append(finding)
    waits: defaultdict[tuple[str, int], float] = defaultdict(float)
    operators: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for line in run.lines():
        path = _below(line.where.file, folder, program)
        if path and line.waits:
            waits[path, line.where.row] += float(line.waits)
            operators[path, line.where.row].add(line.operator)
    lines = [
        WaitingLine(
            path,
            row,
            round(count, 3),
            ",".join(sorted(operators[path, row])),
            ",".join(sorted({finding.code for finding in about[path, row]})) or "missed",
        )
        for (path, row), count in sorted(waits.items())
    ]
    waited = {(_below(each.where.file, folder, program), each.where.row) for each in run.events if each.waits}
    ran = {(_below(file, folder, program), row) for file, rows in run.report["rows"].items() for row in rows}
    confirmed, refuted = 0, []
    for finding in found:
        places = {(finding.path, row) for row in range(finding.row, finding.end_row + 1)} | set(finding.uses)
        in_package = _below(str(folder / finding.path), folder, program)
        if not (finding.code.startswith(SYNCHRONISING) and in_package and places & ran):
            continue
        if places & waited:
            confirmed += 1
        else:
            refuted.append(Refuted(finding.path, finding.row, finding.code))
    return lines, confirmed, refuted


def _told(found: list[str]) -> str:
    """The first of the differences, shortened, and how many there are beside it."""
    if not found:
        return ""
    first = found[0] if len(found[0]) <= MOST_CHARACTERS else f"{found[0][:MOST_CHARACTERS]}..."
    return first + (f", and {len(found) - 1} more" if len(found) > 1 else "")


def differences(before: Run, after: Run) -> Iterator[str]:
    """How a run's results differ: its status, its global `results`, what it prints, and its random generators."""
    if after.status != OK:
        yield what_happened(after)
        return
    old, new = before.report.get("results"), after.report.get("results")
    if old is None or new is None:
        yield "the program gives no results to compare"
    else:
        yield from results.differences(old, new)
    if before.stdout != after.stdout:
        yield "what is printed differs"
    for name, state in before.report["random_state"].items():
        if state != after.report["random_state"].get(name):
            yield f"the random numbers of {name} are drawn differently"
    for name, value in before.report["settings"].items():
        if after.report["settings"][name] != value:
            yield f"{name} is left {after.report['settings'][name]}, {value} before"
