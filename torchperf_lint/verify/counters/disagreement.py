"""Compares both detectors' counts of the same steps and describes differences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.knowledge.cuda_runtime import DEVICE_SYNCHRONIZE, EVENT_SYNCHRONIZE, STREAM_SYNCHRONIZE
from torchperf_lint.verify.counters import runtime
from torchperf_lint.verify.events import DEVICE_WAIT, EVENT_WAIT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchperf_lint.verify.events import Event

PINNED_TO_DEVICE = "pinned to device"


class Step(NamedTuple):
    """Both detectors' counts of one step, or outside all steps; `runtime` is None without the profiler."""

    number: int | None
    debug_mode: int
    events: Counter[str]
    runtime: Counter[str] | None

    def as_json(self) -> dict[str, Any]:
        """The counts as plain data."""
        profiled = None if self.runtime is None else dict(self.runtime)
        return {"step": self.number, "debug_mode": self.debug_mode, "events": dict(self.events), "runtime": profiled}


def join(
    reported: Mapping[int | None, int], events: Iterable[Event], profiled: Mapping[int, Counter[str]]
) -> list[Step]:
    """The counts of both detectors by step, starting with those outside steps."""
    noted: dict[int | None, Counter[str]] = {step: Counter() for step in (*reported, *profiled)}
    for event in events:
        noted.setdefault(event.step, Counter()).update(_names(event))
    order = sorted(noted, key=lambda step: -1 if step is None else step)
    return [
        Step(step, reported.get(step, 0), noted[step], None if step is None else profiled.get(step)) for step in order
    ]


def _names(event: Event) -> list[str]:
    if event.kind is Kind.SYNCHRONIZE:
        return [event.operator]
    pinned = event.kind is Kind.TO_DEVICE and event.pinned
    return [event.kind.value, PINNED_TO_DEVICE] if pinned else [event.kind.value]


def disagreements(steps: Sequence[Step]) -> list[str]:
    """Differences between the detectors over the profiled steps; empty if none was profiled."""
    both = [(step, step.runtime) for step in steps if step.runtime is not None]
    if not both:
        return []
    return [*_waits(both), *_copies(both)]


def _waits(both: Sequence[tuple[Step, Counter[str]]]) -> list[str]:
    """Explain different waits: a library that calls CUDA itself is not reported, and `torch.ops` warns past Python."""
    found = []
    for call, source, ours in (
        (STREAM_SYNCHRONIZE, "the debug mode reported", [step.debug_mode for step, _ in both]),
        (EVENT_SYNCHRONIZE, "the program asked for", [step.events[EVENT_WAIT] for step, _ in both]),
        (DEVICE_SYNCHRONIZE, "the program asked for", [step.events[DEVICE_WAIT] for step, _ in both]),
    ):
        theirs = [counted[call] for _, counted in both]
        if sum(theirs) != sum(ours):
            found.append(f"The runtime saw {_average(theirs)} {call} per step, {source} {_average(ours)}.")
        elif theirs != ours:
            found.append(f"The runtime saw as many {call} as {source}, but in other steps.")
    return found


def _copies(both: Sequence[tuple[Step, Counter[str]]]) -> list[str]:
    found = []
    for way, kind in (("HtoD", Kind.TO_DEVICE), ("DtoH", Kind.TO_HOST)):
        ours = [step.events[kind.value] for step, _ in both]
        theirs = [runtime.copies(counted, way) for _, counted in both]
        if sum(theirs) < sum(ours):
            found.append(
                f"The runtime saw {_average(theirs)} copies {kind.value} per step, the watched calls {_average(ours)}."
            )
    ours = [sum(step.events[each.value] for each in (Kind.TO_DEVICE, Kind.TO_HOST, Kind.READ)) for step, _ in both]
    theirs = [runtime.copies(counted, "HtoD") + runtime.copies(counted, "DtoH") for _, counted in both]
    if sum(theirs) > sum(ours):
        found.append(
            f"The runtime saw {_average(theirs)} copies between host and device per step, the watched calls and the"
            f" debug mode explain {_average(ours)}: the others are made inside C++, and nothing waits for them there."
        )
    ours = [step.events[PINNED_TO_DEVICE] for step, _ in both]
    theirs = [runtime.copies(counted, "HtoD", "Pinned") for _, counted in both]
    if sum(theirs) < sum(ours):
        found.append(
            f"The runtime saw {_average(theirs)} copies from pinned memory to the device per step,"
            f" the watched calls {_average(ours)}."
        )
    return found


def _average(numbers: Sequence[int]) -> str:
    return f"{sum(numbers) / len(numbers):.2f}".rstrip("0").rstrip(".")
