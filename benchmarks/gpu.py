"""What a GPU has measured: where the simulated device agrees with it, and step times before and after fixes.

`python benchmarks/gpu.py` prints the committed results of `make gpu`, from `rules/measurements.json` and
`fixtures/programs/`, and runs nothing on a device. `tests/verify/test_device_comparison.py` asserts that the counts
agree but where `disagreements.toml` has a reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from torchperf_lint import pages
from torchperf_lint.measurements import OTHER_WORK_MS, SIMULATED, UNFIXED, Device
from torchperf_lint.verify import device_comparison, programs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Timed(NamedTuple):
    """A program of a rule: the ratio of its step times, before its fix to after, and the waits that the fix leaves."""

    name: str
    ratio: float
    waits: float


def main() -> int:
    """Print the figures; 1 if there are none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="print each timed program, too")
    options = parser.parse_args()
    known = device_comparison.read()
    if known is None:
        print("no GPU has measured anything yet", file=sys.stderr)
        return 1
    devices = pages.measured()
    print(f"{known['gpu']}, torch {known['torch']}, {known['date']}\n")
    _print_agreement(known, devices[known["gpu"]], devices[SIMULATED])
    timed = sorted(_timed(devices[known["gpu"]]), key=lambda each: each.ratio)
    _print_times(timed)
    if options.verbose:
        print()
        for each in timed:
            print(f"{each.name:<40} {each.ratio:.2f}, {each.waits:g} waits left")
    return 0


def _print_agreement(known: dict[str, dict[str, object]], gpu: Device, simulated: Device) -> None:
    refused = {name for family in programs.families() for name, each in family.programs.items() if not each.simulated}
    parts = {
        "small programs": set(known[device_comparison.PROGRAMS]) - refused,
        "programs of rules": _workloads(gpu) & _workloads(simulated),
        "claims of articles": {name for name, counts in known[device_comparison.EXPERIMENTS].items() if counts},
    }
    reasons = set(device_comparison.read_reasons())
    print(f"{'counted on both devices':<30} {'all':>8} {'agree':>8} {'differ':>8}")
    for part, names in parts.items():
        differ = len(names & reasons)
        print(f"{part:<30} {len(names):8} {len(names) - differ:8} {differ:8}")


def _workloads(device: Device) -> set[str]:
    return {
        name for code, rows in device.rules.items() for row in rows for name in [device_comparison.name_of(code, row)]
    }


def _timed(gpu: Device) -> Iterator[Timed]:
    for code, rows in gpu.rules.items():
        for row in rows:
            if row.step_ms:
                last = list(row.step_ms)[-1]
                name = device_comparison.name_of(code, row)
                yield Timed(name, row.step_ms[UNFIXED] / row.step_ms[last], row.waits[last] + row.staged[last])


def _print_times(timed: Sequence[Timed]) -> None:
    print(f"\nstep time before the fix / after it, with {OTHER_WORK_MS:g} ms of other work on the GPU")
    print(f"{'the fix leaves':<30} {'programs':>8} {'least':>8} {'median':>8} {'most':>8}")
    for name, group in (
        ("no wait", [each.ratio for each in timed if not each.waits]),
        ("some waits", [each.ratio for each in timed if each.waits]),
    ):
        if group:
            print(f"{name:<30} {len(group):8} {min(group):8.2f} {median(group):8.2f} {max(group):8.2f}")


if __name__ == "__main__":
    sys.exit(main())
