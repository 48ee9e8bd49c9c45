"""How long steps take and how much memory they need: measured with CUDA events, compared as interleaved repetitions."""

from __future__ import annotations

import itertools
import random
import time
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

_T = TypeVar("_T")


class Boundary(NamedTuple):
    """The time at which a step, or code outside all steps, begins: on the device's clock and on the host's."""

    step: int | None
    device: Any
    host: float


class StepTimer:
    """Records an event on the current stream at every step's boundary; they are read after the program.

    Nothing waits in between, so a step's device time is that of an undisturbed program. With `other_work`, in
    milliseconds, each step begins with a kernel that takes as long, in place of a large model: while it runs, the host
    can queue the rest of the step, unless it waits.
    """

    def __init__(self, other_work: float = 0.0) -> None:
        self._boundaries: list[Boundary] = []
        self._other_work = other_work
        self._cycles = 0

    def start(self) -> None:
        """Initialize the device, so that the first step does not pay for it."""
        torch.cuda.init()  # type: ignore[no-untyped-call]
        if self._other_work:
            self._cycles = int(self._other_work * _cycles_per_ms())

    def on_step(self, step: int | None) -> None:
        """A step begins, or the loop is over."""
        if not self._boundaries:
            torch.cuda.reset_peak_memory_stats()
        self._boundaries.append(_boundary(step))
        if self._cycles and step is not None:
            torch.cuda._sleep(self._cycles)  # type: ignore[no-untyped-call]

    def stop(self) -> dict[str, Any]:
        """The milliseconds of each step on the device and on the host, and the most memory since the first step."""
        self._boundaries.append(_boundary(None))
        torch.cuda.synchronize()
        origin = self._boundaries[0]
        on_device = step_times([(each.step, origin.device.elapsed_time(each.device)) for each in self._boundaries])
        on_host = step_times([(each.step, (each.host - origin.host) * 1000) for each in self._boundaries])
        return {
            "steps": [{"step": step, "device_ms": ms, "host_ms": on_host[step]} for step, ms in on_device.items()],
            "peak_bytes": torch.cuda.max_memory_allocated(),
        }


def _cycles_per_ms(cycles: int = 20_000_000, repetitions: int = 5) -> float:
    """How many cycles the device's clock counts in a millisecond, once it has sped up."""
    marks = [_boundary(None)]
    for _ in range(repetitions):
        torch.cuda._sleep(cycles)  # type: ignore[no-untyped-call]
        marks.append(_boundary(None))
    torch.cuda.synchronize()
    times = [begin.device.elapsed_time(end.device) for begin, end in itertools.pairwise(marks)]
    return cycles / float(median(times[1:]))


def _boundary(step: int | None) -> Boundary:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return Boundary(step, event, time.perf_counter())


def step_times(boundaries: Sequence[tuple[int | None, float]]) -> dict[int, float]:
    """The time of each step, from boundaries with their start times; an interrupted step is the sum of its parts."""
    durations: dict[int, float] = {}
    for (step, begin), (_, end) in itertools.pairwise(boundaries):
        if step is not None:
            durations[step] = durations.get(step, 0.0) + end - begin
    return durations


# ---- comparing two variants


class Spread(NamedTuple):
    """The median step of a variant, and the quartiles between which half of all its steps lie."""

    median: float
    lower: float
    upper: float


class Comparison(NamedTuple):
    """The ratio of step times before and after: above 1, the change saves time.

    `low` and `high` are the ends of a 95 % bootstrap interval of the ratio. If it contains 1, nothing is shown.
    """

    ratio: float
    low: float
    high: float
    before: Spread
    after: Spread
    repetitions: int


def interleaved(variants: Sequence[_T], repetitions: int) -> list[_T]:
    """The order to run variants in, A B A B and so on: a drift of the machine's speed then affects all alike."""
    return [variant for _ in range(repetitions) for variant in variants]


def compare(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], resamples: int = 1000) -> Comparison:
    """Compare repetitions of two variants; `before[i]` and `after[i]` were measured one directly after the other.

    Each such pair gives a ratio of medians, and the result is the median of these. The interval comes from
    resampling the pairs, and the steps within each pair, with a fixed seed.
    """
    if len(before) != len(after) or not before or not all((*before, *after)):
        raise ValueError("there must be as many repetitions of both variants, at least one, and each with a step")
    draw = random.Random(0)
    ratios = sorted(
        _ratio(
            [
                (draw.choices(before[pair], k=len(before[pair])), draw.choices(after[pair], k=len(after[pair])))
                for pair in draw.choices(range(len(before)), k=len(before))
            ]
        )
        for _ in range(resamples)
    )
    return Comparison(
        _ratio(list(zip(before, after, strict=True))),
        ratios[int(0.025 * resamples)],
        ratios[int(0.975 * resamples)],
        _spread(before),
        _spread(after),
        len(before),
    )


def _ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    return median(median(before) / median(after) for before, after in pairs)


def _spread(repetitions: Sequence[Sequence[float]]) -> Spread:
    steps = [step for repetition in repetitions for step in repetition]
    lower, _, upper = quantiles(steps, n=4, method="inclusive") if len(steps) > 1 else steps * 3
    return Spread(median(steps), lower, upper)
