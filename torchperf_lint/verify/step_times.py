"""Times the steps of a proved program on a real GPU, unfixed and fixed, in interleaved runs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify import environments
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.pairs import ACCEPTED, run_variant
from torchperf_lint.verify.runs import TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.verify.counters.timing import Comparison
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.runs import Launch

REPETITIONS = 3


class StepTimes(NamedTuple):
    """The medians of each variant's steady steps, in milliseconds, and comparisons of the fixed ones with the unfixed.

    `peaks` are the most bytes of device memory that each variant had in use.
    """

    medians: dict[str, float]
    comparisons: dict[str, Comparison]
    peaks: dict[str, int]


def time_steps(
    proof: Proof,
    releases: Path,
    repetitions: int = REPETITIONS,
    time_limit: Callable[[], float] = lambda: TIME_LIMIT,
    launch: Launch | None = None,
) -> StepTimes | None:
    """Run the variants of an accepted proof in turn, several times over; None where there is nothing to compare.

    `time_limit` gives the seconds that the next run may take, and `launch` is as for `run_program`. One process runs at
    a time, whatever the number of cores: two would share the GPU.
    """
    from torchperf_lint.verify.counters.session import TIME_BESIDE_WORK
    from torchperf_lint.verify.counters.timing import compare, interleaved

    if proof.verdict != ACCEPTED:
        return None
    libraries = environments.folders_of(proof.case.releases, releases)
    steps: dict[str, list[list[float]]] = {variant: [] for variant in proof.programs}
    peaks = dict.fromkeys(proof.programs, 0)
    for variant in interleaved(list(proof.programs), repetitions):
        with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as folder:
            run = run_variant(
                Path(folder),
                proof.case,
                proof.programs[variant],
                "cuda",
                libraries,
                mode=TIME_BESIDE_WORK,
                time_limit=time_limit(),
                launch=launch,
            )
        times = [each["device_ms"] for each in run.report["counters"].get("steps", ()) if each["step"] in run.steady]
        if run.status != OK or not times:
            return None
        steps[variant].append(times)
        peaks[variant] = max(peaks[variant], run.report["counters"]["peak_bytes"])
    medians = {variant: median([ms for run in runs for ms in run]) for variant, runs in steps.items()}
    comparisons = {variant: compare(steps[UNFIXED], runs) for variant, runs in steps.items() if variant != UNFIXED}
    return StepTimes(medians, comparisons, peaks)
