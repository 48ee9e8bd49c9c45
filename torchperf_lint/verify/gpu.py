"""`make gpu`: all GPU measurements for the rules, within a time limit; each result is stored at once.

What is counted comes first and side by side: the small programs that the simulated device is compared with and the
articles' experiments, real programs, and the programs of every rule. Steps are timed afterwards, one at a time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint import measurements, pages
from torchperf_lint.engine import registry
from torchperf_lint.verify import apart, device_comparison, environments, keeping, pairs, step_times, tables
from torchperf_lint.verify.warm import warm_launches
from torchperf_lint.verify.workloads import workloads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.verify.pairs import Case, Proof
    from torchperf_lint.verify.step_times import StepTimes

ALL_WELL, NOT_ALL_WELL, NOT_RUN = 0, 1, 2
LONGEST_RUN = 60.0
"""Seconds that a run of a rule's program may take. What is under way when the time is up ends soon."""

FOR_COUNTS = 0.5
"""The part of the time that counting may take."""

REAL_PROGRAMS = Path("benchmarks", "programs", "run.py")


class Clock:
    """The remaining time, in seconds."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def left(self) -> float:
        """The remaining seconds; 0 once the limit has passed."""
        return max(0.0, self._end - time.monotonic())

    def left_for_a_run(self) -> float:
        """The seconds that a run may take which begins now."""
        return min(LONGEST_RUN, self.left())


class Shown(NamedTuple):
    """A rule's proofs and their step times, if any."""

    proofs: list[Proof]
    times: dict[int, StepTimes]

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self.proofs[0].case.workload.rule

    @property
    def _facts(self) -> dict[str, str]:
        return dict(self.proofs[0].runs[measurements.UNFIXED].report["device"])

    def is_timed(self, place: int, known: Mapping[str, measurements.Device]) -> bool:
        """Whether the measurements that are kept of this device have step times of one of the programs."""
        device = known.get(keeping.device_name(self._facts))
        name = self.proofs[place].case.workload.name
        return device is not None and any(
            row.step_ms for row in device.rules.get(self.rule.code, ()) if row.workload == name
        )

    def keep(self) -> None:
        """Write the rule's results into the checkout."""
        rows = [keeping.measurement(proof, self.times.get(place)) for place, proof in enumerate(self.proofs)]
        keeping.keep(self.rule, rows, self._facts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all stages; 0 if all was run, accepted and in agreement, 1 if not, 2 where nothing can be run."""
    parser = argparse.ArgumentParser(prog="make gpu", description="All that a GPU has to say, kept as it comes.")
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda", help="sim rehearses")
    parser.add_argument("--minutes", type=float, default=18, metavar="N", help="nothing begins after (default: 18)")
    parser.add_argument("--jobs", type=int, default=4, metavar="N", help="programs at a time, but for those timed")
    parser.add_argument(
        "--as-installed", action="store_true", help="take other packages than torchmetrics as they are, if installed"
    )
    parser.add_argument("--releases", type=Path, default=environments.default_folder(), metavar="DIR")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and device_comparison.gpu_name() is None:
        return _complain("there is no CUDA GPU here")
    if not pages.in_checkout():
        return _complain("the results are written into a checkout, and this is an installation")
    clock = Clock(options.minutes)
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as scratch:
        rehearsed = Path(scratch, device_comparison.NAME)
        counts = device_comparison.stored() if options.device == "cuda" else rehearsed
        amiss = _stages(options, counts, clock)
    for line in amiss:
        print(f"not as it should be: {line}")
    print(f"{len(amiss)} remarks, {clock.left():.0f} seconds left")
    return NOT_ALL_WELL if amiss else ALL_WELL


def _complain(text: str) -> int:
    print(f"make gpu: error: {text}", file=sys.stderr)
    return NOT_RUN


# ---- the stages


def _stages(options: argparse.Namespace, counts: Path, clock: Clock) -> list[str]:
    """Run all stages, those of the comparison of devices into the file `counts`; return the remarks."""
    releases = "--releases", str(options.releases)
    compare = device_comparison.__name__, "--device", options.device, "--out", str(counts), *releases
    counting = Clock(FOR_COUNTS * clock.left() / 60) if options.device == "cuda" else clock
    with ThreadPoolExecutor(2) as aside:
        others = [
            aside.submit(_run, *compare, clock=counting),
            aside.submit(_real_programs, options.device, options.jobs, counting),
        ]
        cases = pairs.cases_of(workloads_of(registry.all_rules()))
        if options.as_installed:
            cases = [_with_what_is_installed(case) for case in cases]
        shown = list(_count(cases, options.device, options.releases, options.jobs, counting))
        amiss = [line for other in others for line in other.result()]
    amiss += [f"{proof.case.name}: {proof.verdict}" for each in shown for proof in each.proofs if not _is_sound(proof)]
    amiss += _left_out(shown)
    if options.device == "cuda":
        _time(shown, options.releases, clock)
    return amiss + _disagreements(counts, device_comparison.read_reasons() if options.device == "cuda" else {})


def _with_what_is_installed(case: Case) -> Case:
    """The case without the packages that it needs where these are installed, in whatever release."""
    needs = tuple(each for each in case.workload.needs if not _is_installed(each.package))
    return case._replace(workload=case.workload._replace(needs=needs))


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _count(cases: Sequence[Case], device: str, releases: Path, jobs: int, clock: Clock) -> Iterator[Shown]:
    """Prove the rules' fixes and store each rule's counts until the time is up; unfinished rules are left out."""

    def prove_in_time(case: Case) -> Proof | None:
        if not clock.left():
            return None
        proof = pairs.prove(case, device, releases, time_limit=clock.left_for_a_run, launch=launch())
        return proof if clock.left() or _is_sound(proof) else None

    with warm_launches(device, clock.left_for_a_run) as launch, ThreadPoolExecutor(jobs) as pool:
        proofs = zip(cases, pool.map(prove_in_time, cases), strict=True)
        for _, members in itertools.groupby(proofs, key=lambda pair: pair[0].workload.rule):
            done = []
            for _, proof in members:
                done.append(proof)
                if proof is not None:
                    print(tables.row(proof), flush=True)
            shown = Shown([proof for proof in done if proof is not None], {})
            if len(shown.proofs) < len(done):
                continue
            if all(map(_is_sound, shown.proofs)):
                shown.keep()
            yield shown


def _is_sound(proof: Proof) -> bool:
    return proof.verdict in (pairs.ACCEPTED, pairs.UNCHANGED)


def _left_out(shown: Sequence[Shown]) -> list[str]:
    """The rules whose programs did not run for lack of time."""
    done = {proof.case.workload.rule.code for each in shown for proof in each.proofs}
    left = {workload.rule.code for workload in workloads_of(registry.all_rules())} - done
    return [f"not run for want of time: {', '.join(sorted(left))}"] if left else []


def _real_programs(device: str, jobs: int, clock: Clock) -> list[str]:
    script = pages.pages_root().parent / REAL_PROGRAMS
    return _call([sys.executable, str(script), "--device", device, "--here", "--jobs", str(jobs)], clock)


def _disagreements(counts: Path, reasons: device_comparison.Reasons) -> list[str]:
    """Differences between the GPU's counts, in this file, and the simulated device without an accepted reason."""
    known = device_comparison.read(counts)
    if known is None:
        return ["no GPU's counts are there to hold the simulated device against"]
    return device_comparison.compare(device_comparison.simulate(), device_comparison.measured(known), reasons)


def _time(shown: Sequence[Shown], releases: Path, clock: Clock) -> None:
    """Time pairs until the time is up: first what was never timed, and each rule's first program before its others."""
    known = pages.measured()
    pairs_of_all = [
        (each, place) for each in shown if all(map(_is_sound, each.proofs)) for place in range(len(each.proofs))
    ]
    pairs_of_all.sort(key=lambda pair: (pair[0].is_timed(pair[1], known), pair[1]))
    with warm_launches("cuda", clock.left_for_a_run) as launch:
        for each, place in pairs_of_all:
            if not clock.left():
                break
            proof = each.proofs[place]
            times = step_times.time_steps(proof, releases, time_limit=clock.left_for_a_run, launch=launch())
            if times is not None:
                each.times[place] = times
                each.keep()
                print(tables.row(proof, times=times), flush=True)


# ---- processes


def _run(module: str, *arguments: str, clock: Clock) -> list[str]:
    return _call(apart.command(module, *arguments), clock)


def _call(command: Sequence[str], clock: Clock) -> list[str]:
    """Run a command within the remaining time; a remark if it fails."""
    name = " ".join(command[1:])
    if not clock.left():
        return [f"not run for want of time: {name}"]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            status = process.wait(clock.left())
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started: steps are timed next
            return [f"cut off for want of time: {name}"]
    return [f"exit status {status}: {name}"] if status else []


if __name__ == "__main__":
    sys.exit(main())
