"""Repeats the experiments of four articles with our own programs: each claim beside its counts."""

from __future__ import annotations

import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.verify import apart, environments, results
from torchperf_lint.verify.article_claims import (
    CLAIMS,
    EVERYWHERE,
    HERE,
    OPERATORS,
    PIPELINE,
    SAVINGS,
    SLOW,
    Claim,
    Program,
)
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.environments import Release
from torchperf_lint.verify.events import Place
from torchperf_lint.verify.runs import run_program
from torchperf_lint.verify.warm import warm_launches
from torchperf_lint.verify.workloads import fixtures_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_lint.verify.article_claims import Counted, Saving
    from torchperf_lint.verify.runs import Launch, Run

HOLDS, FAILS, NOT_COUNTABLE, NOT_VERIFIABLE = "holds", "does not hold", "not countable", "not verifiable here"

CPU_TIME = "CPU time per sample, relative"

REPETITIONS = 5
"""How often each program of a claim is timed on a GPU, the programs taking turns."""

_NOT_MEASURED = "- (not measured)"


class Row(NamedTuple):
    """A claim, its counts on one device, and the verdict; plain data.

    `step_times` are relative to the last program's, from a real GPU only. The figures of CPU_TIME rows depend on
    the machine and the moment, and are not stored.
    """

    article: str
    claim: str
    ours: bool
    torchmetrics: str | None
    unit: str
    device: str
    counts: Counted
    step_times: Counted
    verdict: str
    remark: str


class _Obstacle(Exception):
    """A program did not run as required; the text says which and why."""


def run(device: str, releases: Path | None = None, jobs: int = os.cpu_count() or 1) -> list[Row]:
    """Run all experiments on `sim` or `cuda`; a row for each claim and release of torchmetrics."""
    return [*run_claims(CLAIMS, device, releases or environments.default_folder(), jobs), *run_input_pipeline()]


def count(device: str, releases: Path | None = None, jobs: int = os.cpu_count() or 1) -> list[Row]:
    """The rows of those claims that are about counts, without step times."""
    untimed = [claim._replace(timed=False) for claim in CLAIMS]
    return run_claims(untimed, device, releases or environments.default_folder(), jobs)


def run_claims(claims: Sequence[Claim], device: str, releases: Path, jobs: int) -> list[Row]:
    """Run the programs of these claims, each once, and judge the claims."""
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as folder, warm_launches(device) as launch:
        laboratory = _Laboratory(device, releases, Path(folder), launch)
        asked = [(claim, release) for claim in claims for release in claim.releases]
        # Programs that are timed must have the device to themselves.
        alone = device == "cuda" and any(claim.timed for claim in claims)
        with ThreadPoolExecutor(1 if alone else jobs) as pool:
            return list(pool.map(lambda each: laboratory.row(*each), asked))


# ---- programs on a device


class _Trial(NamedTuple):
    """A program as it was run: where it lay, and its text."""

    script: Path
    source: str
    run: Run


class _Laboratory:
    """Runs programs on a device; each count is made once, for all claims that use it."""

    def __init__(self, device: str, releases: Path, folder: Path, launch: Callable[[], Launch | None]) -> None:
        self.device = device
        self._launch = launch
        self._releases = releases
        self._folder = folder
        self._trials: dict[object, _Trial] = {}
        self._locks: dict[object, threading.Lock] = {}

    def row(self, claim: Claim, release: str | None) -> Row:
        """Run what a claim asks for, and judge it."""
        filled = partial(Row, claim.article, claim.text, claim.ours, release, claim.unit, self.device)
        if not claim.programs:
            return filled({}, {}, NOT_COUNTABLE, claim.remark)
        if claim.unit == OPERATORS and self.device != "sim":
            return filled({}, {}, NOT_COUNTABLE, "operators are counted on the simulated device only")
        try:
            trials = {name: self._trial(program, release) for name, program in claim.programs.items()}
            counts = {name: _counted(trials[name], claim) for name in trials if not claim.programs[name].fails}
            unlike = _differences(*(trials[name].run for name in claim.alike)) if claim.alike else []
            times = self._step_times(claim.programs, release) if claim.timed and self.device == "cuda" else {}
        except _Obstacle as obstacle:
            return filled({}, {}, NOT_VERIFIABLE, str(obstacle))
        verdict = HOLDS if claim.judge(counts) and not unlike else FAILS
        return filled(counts, times, verdict, "; ".join(filter(None, [*unlike[:1], claim.remark])))

    def _trial(self, program: Program, release: str | None) -> _Trial:
        """The program's run with everything counted; raise _Obstacle where it did not end as it should."""
        key = program, release
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._trials:
                self._trials[key] = self._start(program, release)
        trial = self._trials[key]
        status, error = trial.run.status, trial.run.report["error"]
        if program.fails and program.fails not in error:
            raise _Obstacle(f"{program.script} should fail with `{program.fails}`: {error or 'it did not'}")
        if not program.fails and status != OK:
            raise _Obstacle(f"{program.script}: {status}: {error}")
        return trial

    def _start(self, program: Program, release: str | None, mode: str = "count") -> _Trial:
        try:
            needed = [Release("torchmetrics", release)] if release else []
            libraries = environments.folders_of(needed, self._releases)
        except environments.Unavailable as error:
            raise _Obstacle(str(error)) from None
        script = Path(tempfile.mkdtemp(dir=self._folder)) / program.script
        script.write_bytes((_scripts() / program.script).read_bytes())
        if program.fixed:
            fix(script, release or importlib.metadata.version("torchmetrics"))
        done = run_program(
            script,
            self.device,
            program.arguments,
            libraries=libraries,
            mode=mode,
            operators=self.device == "sim",
            launch=self._launch(),
        )
        return _Trial(script, script.read_text(encoding="utf-8"), done)

    def _step_times(self, programs: Mapping[str, Program], release: str | None) -> Counted:
        """How long a step of each program takes, relative to the last program's, by runs that take turns."""
        from torchperf_lint.verify.counters import timing

        steps: dict[str, list[list[float]]] = {name: [] for name in programs}
        for name in timing.interleaved(list(programs), REPETITIONS):
            done = self._start(programs[name], release, mode="time").run
            if done.status != OK:
                raise _Obstacle(f"{programs[name].script}: {done.report['error']}")
            timed = done.report["counters"]["steps"]
            steps[name].append([each["device_ms"] for each in timed if each["step"] in done.steady])
        *_, baseline = steps
        return {name: round(timing.compare(steps[name], steps[baseline]).ratio, 3) for name in steps}


def _scripts() -> Path:
    return fixtures_root() / "experiments"


def fix(script: Path, torchmetrics: str) -> None:
    """Fix a script in place with the linter: one command, every rule, safe and unsafe fixes."""
    command = apart.command("torchperf_lint.cli", "--isolated", "--quiet", "--exit-zero", "--fix", "--unsafe-fixes")
    versions = ["--target-torch", importlib.metadata.version("torch"), "--target-torchmetrics", torchmetrics]
    done = _python([*command, *versions, str(script)])
    if done.returncode:
        raise _Obstacle(f"{script.name} cannot be fixed: {done.stderr.strip()}")


def _python(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _counted(trial: _Trial, claim: Claim) -> float:
    """What the claim counts, per step; a program with several loops has a step of each."""
    rows = marked_rows(trial.source, claim.at_tip) if claim.at_tip else None
    steady = trial.run.steady
    if not steady:
        raise _Obstacle(f"{trial.script.name} has no steps to count over")

    def is_meant(where: Place) -> bool:
        return rows is None or (where.row in rows and where.file == str(trial.script))

    if claim.unit == OPERATORS:
        calls = [
            (Place(file, row), Fraction(count, len(steady)))
            for step, file, row, _, count in trial.run.report["operators"]
            if step in steady
        ]
    else:
        calls = [(line.where, line.waits) for line in trial.run.lines()]
    return round(float(sum(count for where, count in calls if is_meant(where))), 3)


def marked_rows(source: str, tip: str) -> set[int]:
    """The rows of a program that a comment marks with a tip."""
    mark = f"# tip: {tip}"
    return {row for row, line in enumerate(source.splitlines(), 1) if line.endswith(mark)}


def _differences(before: Run, after: Run) -> list[str]:
    """Where the results or the outputs of two runs differ."""
    old, new = before.report.get("results"), after.report.get("results")
    if old is None or new is None:
        return ["there are no results to compare"]
    printed = [] if before.stdout == after.stdout else ["the outputs differ"]
    return [*results.differences(old, new), *printed]


# ---- CPU time of the input pipeline


def run_input_pipeline(arguments: Sequence[str] = ()) -> list[Row]:
    """Run the input pipeline on this machine's processor, in all its variants, and judge them."""
    done = _python([sys.executable, str(_scripts() / PIPELINE), *arguments])
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [_row_of_saving(saving, {}, NOT_VERIFIABLE, f"{PIPELINE}: {reason}") for saving in SAVINGS]
    return judged_savings(json.loads(done.stdout.splitlines()[-1]))


def judged_savings(seconds: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Row]:
    """Rows for the CPU seconds per sample of each round, by variant: in the training process, and in all."""
    rows = []
    for saving in SAVINGS:
        here = relative(seconds[HERE][saving.variant], seconds[HERE][SLOW])
        everywhere = relative(seconds[EVERYWHERE][saving.variant], seconds[EVERYWHERE][SLOW])
        counts = {SLOW: 1.0, saving.variant: here}
        if everywhere != here:
            counts[f"{saving.variant}, {EVERYWHERE}"] = everywhere
        rows.append(_row_of_saving(saving, counts, HOLDS if saving.judge(here) else FAILS, saving.remark))
    return rows


def relative(times: Sequence[float], slow: Sequence[float]) -> float:
    """The median over the rounds of one time over the other."""
    return round(statistics.median(each / other for each, other in zip(times, slow, strict=True)), 2)


def _row_of_saving(saving: Saving, counts: Counted, verdict: str, remark: str) -> Row:
    return Row("003", saving.text, False, None, CPU_TIME, "cpu", counts, {}, verdict, remark)


# ---- the table


def table(rows: Iterable[Row]) -> str:
    """The rows as text, a claim with its figures and verdict below one another."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("article", "claim", "simulated", "GPU", "step time on the GPU", "verdict"):
        shown.add_column(heading, overflow="fold")
    for row in rows:
        release = f" (torchmetrics {row.torchmetrics})" if row.torchmetrics else ""
        unit = f"\n{row.unit}" if row.counts else ""
        counts = _figures(row.counts)
        shown.add_row(
            f"{'ours, ' if row.ours else ''}{row.article}",
            f"{row.claim}{release}",
            f"{counts}{unit}" if row.device != "cuda" else _NOT_MEASURED,
            f"{counts}{unit}" if row.device == "cuda" else _NOT_MEASURED,
            _figures(row.step_times) if row.step_times else _NOT_MEASURED,
            f"{row.verdict}: {row.remark}" if row.remark else row.verdict,
        )
    console = Console(width=170, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _figures(figures: Counted) -> str:
    return "\n".join(f"{name} {figure:g}" for name, figure in figures.items())


def verify(device: str, releases: Path | None) -> int:
    """Run the experiments and print the table; the exit status is 1 where something could not be verified here."""
    rows = run(device, releases)
    print(table(rows), end="")
    return int(any(row.verdict == NOT_VERIFIABLE for row in rows))
