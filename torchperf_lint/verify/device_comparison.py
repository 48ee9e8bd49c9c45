"""Compares the simulated device with a real GPU: one command counts on the GPU, and a comparison lists differences."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint import measurements, pages
from torchperf_lint.verify import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.measurements import Measurement
    from torchperf_lint.verify.counters.disagreement import Step
    from torchperf_lint.verify.experiments import Row

NAME = "agreement.json"
REASONS = "disagreements.toml"
SIMULATED_ONLY = "simulated only"

_VISIBLE = "CUDA_VISIBLE_DEVICES"

WRITTEN, NOT_WRITTEN = 0, 2
PARTS = PROGRAMS, EXPERIMENTS = ("programs", "experiments")

Counts = dict[str, dict[str, Any]]
"""The counts, by name; None where a device cannot tell."""

Reasons = dict[str, dict[str, str]]
"""Accepted reasons for differences, by name and by count."""


# ---- the comparison


class Disagreement(NamedTuple):
    """A count that differs between the simulated device and the GPU."""

    name: str
    counted: str
    simulated: object
    measured: object

    def __str__(self) -> str:
        return f"{self.name}: {self.counted} is {self.simulated} on the simulated device, {self.measured} on the GPU"


def disagreements(simulated: Mapping[str, Mapping[str, Any]], measured: Counts) -> list[Disagreement]:
    """The differences between two devices, over everything counted on both."""
    return [
        Disagreement(name, counted, simulated[name][counted], count)
        for name, counts in measured.items()
        if name in simulated
        for counted, count in counts.items()
        if None not in (count, simulated[name].get(counted)) and simulated[name][counted] != count
    ]


def compare(simulated: Mapping[str, Mapping[str, Any]], measured: Counts, reasons: Reasons) -> list[str]:
    """The errors: differences without a reason, and reasons without a difference."""
    found = disagreements(simulated, measured)
    wrong = [f"{each}: no reason is given" for each in found if not _reason(reasons, each).strip()]
    places = {(each.name, each.counted) for each in found}
    wrong += [
        f"{name}: {counted} has a reason to differ, and does not"
        for name, each in reasons.items()
        for counted in each
        if (name, counted) not in places
    ]
    return wrong


def _reason(reasons: Reasons, each: Disagreement) -> str:
    return reasons.get(each.name, {}).get(each.counted, "")


# ---- what is known


def stored() -> Path:
    """Where the counts of a GPU are stored."""
    return programs.folder() / NAME


def read(path: Path | None = None) -> dict[str, Any] | None:
    """The counts of a GPU in a file, or the stored ones; None if there are none."""
    path = path or stored()
    if not path.is_file():
        return None
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return known


def read_reasons() -> Reasons:
    """The accepted reasons for differences."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    reasons: Reasons = tomllib.loads((programs.folder() / REASONS).read_text(encoding="utf-8"))
    return reasons


def status() -> str:
    """The device that the simulated one was compared with, in a few words."""
    known = read()
    if known is None:
        return SIMULATED_ONLY
    return f"held against {known['gpu']} with torch {known['torch']} on {known['date']}"


def measured(known: Mapping[str, Any]) -> Counts:
    """All counts of a GPU that the simulated device has counts for, too."""
    return {
        **{name: _compared(entry) for name, entry in known[PROGRAMS].items()},
        **_workloads_on(known["gpu"]),
        **known[EXPERIMENTS],
    }


def simulate() -> Counts:
    """The same counts from the simulated device, those of the rules' workloads as the pages show them."""
    from torchperf_lint.verify import experiments

    with _gpus_hidden():
        return {
            **simulated_programs(programs.run_apart(programs.SIMULATED)),
            **_workloads_on(measurements.SIMULATED),
            **_experiments(experiments.count(programs.SIMULATED)),
        }


@contextlib.contextmanager
def _gpus_hidden() -> Iterator[None]:
    """Hide the GPUs of this machine from the processes that are started: there is no simulated device beside them."""
    before = os.environ.get(_VISIBLE)
    os.environ[_VISIBLE] = "-1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VISIBLE]
        else:
            os.environ[_VISIBLE] = before


def simulated_programs(outcomes: Counts) -> Counts:
    """The counts of the programs that the simulated device does not refuse."""
    return {name: _compared(entry) for name, entry in outcomes.items() if entry["error"] != programs.REFUSAL}


def _compared(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a program that both devices have; on a GPU, copies to the host are part of reads."""
    return {counted: entry[counted] for counted in programs.COUNTED if counted != "to_host"}


def _workloads_on(name: str) -> Counts:
    """The counts of the rules' workloads on a device, as `rules/measurements.json` has them."""
    device = pages.measured().get(name)
    return dict(_workload(code, row) for code, rows in device.rules.items() for row in rows) if device else {}


def name_of(code: str, row: Measurement) -> str:
    """The name of a rule's workload in a comparison."""
    return f"{code} {row.workload}" + (f", torchmetrics {row.torchmetrics}" if row.torchmetrics else "")


def _workload(code: str, row: Measurement) -> tuple[str, dict[str, Any]]:
    waits = {f"{variant} waits": count for variant, count in row.waits.items()}
    staged = {f"{variant} staged": count for variant, count in row.staged.items()}
    return name_of(code, row), {**waits, **staged}


def _experiments(rows: Sequence[Row]) -> Counts:
    return {
        f"{row.article}: {row.claim}" + (f", torchmetrics {row.torchmetrics}" if row.torchmetrics else ""): {
            f"{name} {row.unit}": count for name, count in row.counts.items()
        }
        for row in rows
    }


# ---- counting on a GPU


def measure_programs() -> Counts:
    """Run the small programs on the GPU of this process, under both detectors, and print their table."""
    from torchperf_lint.verify.counters.disagreement import join
    from torchperf_lint.verify.counters.runtime import WARM_UP, Profile, counts
    from torchperf_lint.verify.counters.session import Watch
    from torchperf_lint.verify.events import Recorder

    recorder = Recorder()
    watch = Watch(recorder)
    profile = Profile(watch.debug_mode.unheard, steps=sys.maxsize)
    watch.start()
    recorder.on_step.append(profile.on_step)
    for _ in range(WARM_UP):
        recorder.begin_step(0)
    print(programs.HEADING)
    outcomes = []
    for outcome in programs.run_all(recorder, programs.CUDA):
        outcomes.append(outcome)
        print(programs.described(outcome), flush=True)
    profiled = profile.finish()
    watch.stop()
    if profile.failure:
        print(f"Only one detector counted: {profile.failure}.", file=sys.stderr)
    steps = join(watch.debug_mode.reported, recorder.events, {} if profile.failure else counts(profiled))
    by_number = {step.number: step for step in steps}
    return {outcome.name: entry(outcome, by_number.get(outcome.step)) for outcome in outcomes}


def entry(outcome: programs.Outcome, step: Step | None) -> dict[str, Any]:
    """Both detectors' counts of a program, and their differences; `step` is None if nothing happened."""
    from torchperf_lint.verify.counters.disagreement import disagreements as of_detectors
    from torchperf_lint.verify.counters.runtime import copies

    seen = outcome.as_json()
    profiled = step.runtime if step else None
    # Only the profiler sees copies inside C++.
    seen["to_device"] = None if profiled is None else copies(profiled, "HtoD")
    return {
        **seen,
        "debug_mode": step.debug_mode if step else 0,
        "runtime": None if profiled is None else dict(profiled),
        "detectors": of_detectors([step]) if step else [],
    }


def measure_experiments(releases: Path, device: str = programs.CUDA) -> Counts:
    """Run the articles' experiments on a device, the GPU by default."""
    from torchperf_lint.verify import experiments

    return _experiments(experiments.count(device, releases))


# ---- python -m torchperf_lint.verify.device_comparison


def main(arguments: Sequence[str] | None = None) -> int:
    """Count on a real GPU and write the file; 2 where there is no GPU or the file cannot be written."""
    from torchperf_lint.verify import environments

    parser = argparse.ArgumentParser(description="Count waits and copies on a real GPU, for the simulated one's sake.")
    parser.add_argument("--device", choices=programs.DEVICES, default=programs.CUDA, help="sim rehearses, with --out")
    parser.add_argument("--out", type=Path, default=stored(), help="default: %(default)s")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="count these, keep the others' counts")
    parser.add_argument(
        "--releases", type=Path, default=environments.default_folder(), help="where releases of torchmetrics are kept"
    )
    options = parser.parse_args(arguments)
    if options.out.parent == programs.folder() and not pages.in_checkout():
        print("agreement: an installation is not written into; name a file with --out", file=sys.stderr)
        return NOT_WRITTEN
    rehearsal = options.device == programs.SIMULATED
    gpu = measurements.SIMULATED if rehearsal else gpu_name()
    if gpu is None or (rehearsal and options.out.resolve() == stored().resolve()):
        print("agreement: there is no CUDA GPU here; simulated counts are never written", file=sys.stderr)
        return NOT_WRITTEN
    counting: dict[str, Callable[[], Counts]] = {
        PROGRAMS: (lambda: programs.run_apart(options.device)) if rehearsal else measure_programs,
        EXPERIMENTS: lambda: measure_experiments(options.releases, options.device),
    }
    for part in options.only:
        keep(options.out, part, counting[part](), gpu)
        print(f"wrote the {part} into {options.out}", flush=True)
    return WRITTEN


def gpu_name() -> str | None:
    """The name of the CUDA GPU that torch sees; None if it sees none or was built without CUDA."""
    import torch

    if torch.version.cuda is None or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_name()


def keep(path: Path, part: str, counts: Counts, gpu: str) -> None:
    """Write one part of the counts; other parts stay if they were counted under the same conditions."""
    circumstances = {"gpu": gpu, **programs.versions(), "python": platform.python_version()}
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    same = all(before.get(name) == value for name, value in circumstances.items())
    others = {each: before[each] if same else {} for each in PARTS}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    write(path, {**circumstances, "date": today, **others, part: counts})


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Replace the file atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
