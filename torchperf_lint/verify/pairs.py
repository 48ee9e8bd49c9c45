"""A program against itself after our fixes: the runs, and every reason not to accept a fix."""

from __future__ import annotations

import importlib.metadata
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety
from torchperf_lint.knowledge.versions import parse_version
from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify import environments, results
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.environments import Release
from torchperf_lint.verify.runs import Run, run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.verify.workloads import Agreement, Workload

ACCEPTED, REJECTED, NOT_VERIFIABLE = "accepted", "rejected", "not verifiable here"


class Case(NamedTuple):
    """A workload and the release of torchmetrics that it runs against; None where any will do."""

    workload: Workload
    torchmetrics: str | None

    @property
    def releases(self) -> list[Release]:
        """What it needs beside torch."""
        bound = [Release("torchmetrics", self.torchmetrics)] if self.torchmetrics else []
        return [*bound, *self.workload.needs]

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.workload.name + (f" (torchmetrics {self.torchmetrics})" if self.torchmetrics else "")


class Proof(NamedTuple):
    """The runs of a case by variant, the text of each, and what speaks against each fixed one."""

    case: Case
    programs: dict[str, bytes]
    runs: dict[str, Run]
    objections: dict[str, list[str]]
    obstacle: str = ""  # why nothing could be run

    @property
    def verdict(self) -> str:
        """Accepted only if every variant ran and nothing speaks against it."""
        if self.obstacle or any(run.status == NOT_SIMULATED for run in self.runs.values()):
            return NOT_VERIFIABLE
        unfixed = self.runs[UNFIXED].status == OK
        return ACCEPTED if unfixed and not any(self.objections.values()) else REJECTED

    @property
    def reasons(self) -> list[str]:
        """Why the verdict is not `accepted`."""
        if self.obstacle:
            return [self.obstacle]
        failed = [f"{variant}: {run.report['error']}" for variant, run in self.runs.items() if run.status != OK]
        against = [f"{variant}: {reason}" for variant, reasons in self.objections.items() for reason in reasons]
        return list(dict.fromkeys(failed + against))


def cases_of(workloads: Iterable[Workload]) -> list[Case]:
    """Each workload with each release that it asks for."""
    return [Case(workload, version) for workload in workloads for version in workload.torchmetrics or (None,)]


def prove_all(
    cases: Iterable[Case], device: str, releases: Path, jobs: int, *, operators: bool = False
) -> Iterator[Proof]:
    """Prove the cases and yield them in order: on the simulated device several at a time, on a GPU one."""

    def prove_one(case: Case) -> Proof:
        return prove(case, device, releases, operators=operators)

    if device != "sim":
        yield from map(prove_one, cases)
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(prove_one, cases)


def prove(case: Case, device: str, releases: Path, *, operators: bool = False) -> Proof:
    """Run a case's unfixed program and what our fixes make of it, and hold the runs against each other.

    `operators` counts the device operators as well; the runs take longer then.
    """
    try:
        libraries = environments.folders_of(case.releases, releases)
    except environments.Unavailable as error:
        return Proof(case, {}, {}, {}, str(error))
    programs = variants(case)
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as place:
        runs = {
            variant: run_variant(Path(place) / variant, case, program, device, libraries, operators=operators)
            for variant, program in programs.items()
        }
    fixed = {variant: run for variant, run in runs.items() if variant != UNFIXED}
    agreement = case.workload.agreement
    against = {
        variant: objections(runs[UNFIXED], run, agreement, safe=variant == Safety.SAFE.value)
        for variant, run in fixed.items()
    }
    return Proof(case, programs, runs, against)


def variants(case: Case) -> dict[str, bytes]:
    """The texts to run, by variant: unfixed, safe, unsafe; a grade that changes nothing is left out."""
    torchmetrics = parse_version(case.torchmetrics) if case.torchmetrics else None
    fixed = case.workload.fixed(parse_version(importlib.metadata.version("torch")), torchmetrics)
    return {UNFIXED: case.workload.data, **{safety.value: program for safety, program in fixed.items()}}


def run_variant(
    folder: Path,
    case: Case,
    program: bytes,
    device: str,
    libraries: Sequence[Path],
    *,
    mode: str = "count",
    operators: bool = False,
) -> Run:
    """Run one text of a case's program in this folder."""
    folder.mkdir(exist_ok=True)
    script = folder / case.workload.path.name
    script.write_bytes(program)
    return run_program(script, device, libraries=libraries, mode=mode, operators=operators)


def objections(before: Run, after: Run, agreement: Agreement, *, safe: bool) -> list[str]:
    """Everything that speaks against a fix, given the runs without and with it; empty where it is to be accepted."""
    if before.status != OK or after.status != OK:
        return [] if before.status != OK else [f"the fixed program fails: {after.report['error']}"]
    return [*_costs(before, after), *_effects(before, after, agreement, safe=safe)]


def _costs(before: Run, after: Run) -> Iterator[str]:
    was, now = before.counts(), after.counts()
    if not before.steady:
        yield "the program has no steps to count over"
    if now.waits > was.waits:
        yield f"the host waits {float(now.waits):g} times per step, {float(was.waits):g} before"
    if now.staged > was.staged:
        yield f"{float(now.staged - was.staged):g} copies per step became asynchronous ones of pageable memory"
    if all(new >= old for new, old in zip(now.of_transfers, was.of_transfers, strict=True)):
        yield "neither waits nor copies become fewer"


def _effects(before: Run, after: Run, agreement: Agreement, *, safe: bool) -> Iterator[str]:
    if safe and (agreement.tolerance or agreement.differ):
        yield "a safe fix has no tolerance"
    for warning in after.warnings - before.warnings:
        yield f"a warning is new: {warning}"
    if agreement.differ:
        return
    old, new = before.report.get("results"), after.report.get("results")
    if old is None and new is None and not before.stdout.strip():
        yield "the program gives no results to compare"
    elif (old is None) != (new is None):
        yield "the results are gone"
    elif old is not None:
        yield from results.differences(old, new, agreement.tolerance)
    if before.stdout != after.stdout and not agreement.tolerance:
        yield "the output differs"
    for name, state in before.report["random_state"].items():
        if state != after.report["random_state"].get(name):
            yield f"the random numbers of {name} are drawn differently"
