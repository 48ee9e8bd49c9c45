"""Compares a program before and after our fixes: the runs, and every reason to reject a fix."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety
from torchperf_lint.knowledge.versions import parse_version
from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify import effects, environments
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.environments import Release
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.runs import TIME_LIMIT, Run, run_program
from torchperf_lint.verify.warm import warm_launches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from fractions import Fraction

    from torchperf_lint.verify.runs import Launch
    from torchperf_lint.verify.workloads import Agreement, Workload

KEPT_PER_WAIT = 8
"""The bytes that a deferred value may occupy per saved wait."""

_LOADERS = os.path.join("torch", "utils", "data", "")

VERDICTS = "accepted", "no fix here", "rejected", "not verifiable here"
ACCEPTED, UNCHANGED, REJECTED, NOT_VERIFIABLE = VERDICTS


class Case(NamedTuple):
    """A workload and its torchmetrics release; None where any will do."""

    workload: Workload
    torchmetrics: str | None

    @property
    def releases(self) -> list[Release]:
        """The releases that it needs besides torch."""
        bound = [Release("torchmetrics", self.torchmetrics)] if self.torchmetrics else []
        return [*bound, *self.workload.needs]

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.workload.name + (f" (torchmetrics {self.torchmetrics})" if self.torchmetrics else "")


class Proof(NamedTuple):
    """A case's runs and texts by variant, and the objections to each fixed variant."""

    case: Case
    programs: dict[str, bytes]
    runs: dict[str, Run]
    objections: dict[str, list[str]]
    obstacle: str = ""  # why nothing could be run

    @property
    def verdict(self) -> str:
        """Accepted only if a fix changes the program, every variant ran, and there are no objections."""
        if self.obstacle or any(run.status == NOT_SIMULATED for run in self.runs.values()):
            return NOT_VERIFIABLE
        if str(self.runs[UNFIXED].report["error"]).startswith(ModuleNotFoundError.__name__):
            return NOT_VERIFIABLE
        if self.runs[UNFIXED].status != OK or any(self.objections.values()):
            return REJECTED
        return ACCEPTED if self.objections else UNCHANGED

    @property
    def reasons(self) -> list[str]:
        """Why the fixes, if there are any, are not accepted."""
        if self.obstacle:
            return [self.obstacle]
        failed = [f"{variant}: {run.report['error']}" for variant, run in self.runs.items() if run.status != OK]
        against = [f"{variant}: {reason}" for variant, reasons in self.objections.items() for reason in reasons]
        return list(dict.fromkeys(failed + against))

    @property
    def others(self) -> dict[str, dict[str, Fraction]]:
        """Counts by variant of other costs that fixes reduce where they do not change the waits."""
        if len({run.counts()[:2] for run in self.runs.values()}) > 1:
            return {}
        counts = {variant: run.other_counts() for variant, run in self.runs.items()}
        lessened = [what for run in self.runs.values() for what in other_gains(self.runs[UNFIXED], run)]
        return {what: {variant: each[what] for variant, each in counts.items()} for what in dict.fromkeys(lessened)}


def cases_of(workloads: Iterable[Workload]) -> list[Case]:
    """Each workload with each release that it asks for."""
    return [Case(workload, version) for workload in workloads for version in workload.torchmetrics or (None,)]


def prove_all(
    cases: Iterable[Case], device: str, releases: Path, jobs: int, *, operators: bool = False
) -> Iterator[Proof]:
    """Prove the cases and yield them in order, so many at a time."""
    with warm_launches(device) as launch, ThreadPoolExecutor(jobs) as pool:

        def prove_one(case: Case) -> Proof:
            return prove(case, device, releases, operators=operators, launch=launch())

        yield from pool.map(prove_one, cases)


def prove(
    case: Case,
    device: str,
    releases: Path,
    *,
    operators: bool = False,
    time_limit: Callable[[], float] = lambda: TIME_LIMIT,
    launch: Launch | None = None,
) -> Proof:
    """Run a case's unfixed program and its fixed variants, and compare the runs.

    `operators` counts the device operators as well, which makes the runs slower. `time_limit` gives the
    seconds that the next run may take, and `launch` is as for `run_program`.
    """
    try:
        libraries = environments.folders_of(case.releases, releases)
    except environments.Unavailable as error:
        return Proof(case, {}, {}, {}, str(error))
    programs = variants(case)
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as place:
        runs = {
            variant: run_variant(
                Path(place) / variant,
                case,
                program,
                device,
                libraries,
                operators=operators,
                time_limit=time_limit(),
                launch=launch,
            )
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
    time_limit: float = TIME_LIMIT,
    launch: Launch | None = None,
) -> Run:
    """Run one text of a case's program in this folder; `time_limit` and `launch` are `run_program`'s."""
    folder.mkdir(exist_ok=True)
    script = folder / case.workload.path.name
    script.write_bytes(program)
    host_bytes = case.workload.host_bytes and mode == "count"
    run = run_program(
        script,
        device,
        libraries=libraries,
        mode=mode,
        operators=operators,
        host_bytes=host_bytes,
        time_limit=time_limit,
        launch=launch,
    )
    return run._replace(written=_written(folder, script))


def _written(folder: Path, script: Path) -> dict[str, str]:
    """The files that a program leaves in its folder, with a digest of each."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path != script
    }


def objections(before: Run, after: Run, agreement: Agreement, *, safe: bool) -> list[str]:
    """All objections to a fix, given the runs without and with it; empty where it is accepted."""
    if before.status != OK or after.status != OK:
        return [] if before.status != OK else [f"the fixed program fails: {after.report['error']}"]
    return [
        *_costs(before, after),
        *_hidden_costs(before, after, agreement),
        *dangers(before, after),
        *_effects(before, after, agreement, safe=safe),
    ]


def _costs(before: Run, after: Run) -> Iterator[str]:
    """Objections about waits, copies and started processes."""
    was, now = before.counts(), after.counts()
    if not before.steady:
        yield "the program has no steps to count over"
    if before.report["loops"] != after.report["loops"]:
        yield f"loops of {_listed(before.report['loops'])} steps became such of {_listed(after.report['loops'])}"
    if now.waits > was.waits:
        yield f"the host waits {float(now.waits):g} times per step, {float(was.waits):g} before"
    if now.staged > was.staged:
        yield f"{float(now.staged - was.staged):g} copies per step became asynchronous ones of pageable memory"
    if after.processes > before.processes:
        yield f"{after.processes} processes are started, {before.processes} before"
    copies_as_before = all(new >= old for new, old in zip(now.of_transfers, was.of_transfers, strict=True))
    if copies_as_before and not other_gains(before, after):
        yield f"neither waits nor copies become fewer, nor {', '.join(before.other_counts())}"
    old, new = _waits(before), _waits(after)
    if new > old or (new == old and now.waits < was.waits):
        yield f"waits are moved, not removed: the host waits {new} times in all, {old} before"


def other_gains(before: Run, after: Run) -> list[str]:
    """The costs other than waits and copies that the fix reduces."""
    was, now = before.other_counts(), after.other_counts()
    return [what for what in was if now[what] < was[what]]


def _hidden_costs(before: Run, after: Run, agreement: Agreement) -> Iterator[str]:
    """Objections about costs that replace the waits."""
    old, new = _pinned_by_hand(before), _pinned_by_hand(after)
    if new > old:
        yield f"the program itself pins {new} tensors, {old} before"
    saved = _waits(before) - _waits(after)
    if _graph_growth(after) > _graph_growth(before):
        yield "autograd graphs are kept from step to step"
    kept = _growth(before, after)
    if kept > max(KEPT_PER_WAIT, agreement.kept) * max(saved, 0):
        yield f"{kept} bytes more are held on the device, step upon step, for {saved} waits less"


def dangers(before: Run, after: Run) -> Iterator[str]:
    """Objections about programs that are right on a device that copies at once, but not on every GPU."""
    old, new = _unawaited(before), _unawaited(after)
    if new > old:
        yield f"{new - old} copies to the host became asynchronous: they may be read before they have arrived"
    elif new and _explicit_waits(after) < _explicit_waits(before):
        yield "asynchronous copies to the host are no longer waited for: they may be read before they have arrived"
    early = after.overwritten
    if len(early) > len(before.overwritten):
        rows = ", ".join(str(row) for row in sorted({place.row for place in early}))
        yield f"the source of a copy is written to before the copy is done: {len(early)} times, in line {rows}"


def _listed(lengths: Iterable[int]) -> str:
    return ", ".join(map(str, lengths)) or "no"


def _waits(run: Run) -> int:
    return sum(each.waits for each in run.events)


def _explicit_waits(run: Run) -> int:
    return sum(each.waits and each.kind is Kind.SYNCHRONIZE for each in run.events)


def _unawaited(run: Run) -> int:
    return sum(each.kind is Kind.TO_HOST and each.asynchronous for each in run.events)


def _pinned_by_hand(run: Run) -> int:
    """How often memory is pinned other than by a loader for its batches."""
    return sum(
        each.kind is Kind.PIN and each.where.row > 0 and (each.via is None or _LOADERS not in each.via.file)
        for each in run.events
    )


def _growth(before: Run, after: Run) -> int:
    """The difference in growth of used device memory after the first steady step, in bytes."""
    if not before.steady:
        return 0
    surplus = [new - old for old, new in zip(before.report["memory"], after.report["memory"], strict=False)]
    later = surplus[min(before.steady) :]
    return max(later, default=0) - later[0] if later else 0


def _graph_growth(run: Run) -> int:
    """The growth of live graphs after the first steady step, in nodes, as far as they were scanned."""
    nodes = [alive for step, alive in run.report["nodes"] if step >= min(run.steady, default=0)]
    return nodes[-1] - nodes[0] if nodes else 0


def _effects(before: Run, after: Run, agreement: Agreement, *, safe: bool) -> Iterator[str]:
    """Objections about output, results and side effects."""
    if safe and (agreement.tolerance or agreement.differ or agreement.kept or agreement.other_types):
        yield "a safe fix has no tolerance"
    if "not_comparable" in before.report:
        yield before.report["not_comparable"]
    found = effects.differences(before, after, agreement)
    texts = ("the output differs" if each.is_of_printed_text else each.text for each in found)
    yield from dict.fromkeys(texts)
    old, new = before.report.get("results"), after.report.get("results")
    if not agreement.differ and old is None and new is None and not before.stdout.strip():
        yield "the program gives no results to compare"
