"""Detector 2: CUDA runtime calls that the profiler sees in a window of steps, and the device's activity."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._C._autograd import DeviceType, _profiler_enabled

from torchperf_lint.knowledge.cuda_runtime import (
    CALL,
    COPY,
    DEVICE_SYNCHRONIZE,
    EVENT_SYNCHRONIZE,
    MEMORY,
    STREAM_SYNCHRONIZE,
    plain_name,
)
from torchperf_lint.verify.events import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

WARM_UP = 2  # steps before the window
MARK = "torchperf-lint step "

_COUNTED = {
    *(STREAM_SYNCHRONIZE, EVENT_SYNCHRONIZE, DEVICE_SYNCHRONIZE),
    *("cudaMemcpy", "cudaMemcpyAsync", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost"),
}


class Activity(NamedTuple):
    """One entry of a profile; times in nanoseconds, `row` is the thread or the stream."""

    name: str
    on_device: bool
    start: int
    duration: int
    correlation: int  # shared by a call and what it starts on the device
    row: int

    @property
    def end(self) -> int:
        """When it is over."""
        return self.start + self.duration

    @property
    def is_call(self) -> bool:
        """Whether the host calls the CUDA runtime or driver."""
        return not self.on_device and CALL.fullmatch(self.name) is not None


class Window(NamedTuple):
    """The time of a step, or of a part of it if an inner loop interrupts it."""

    step: int
    start: int
    end: int


class Profile:
    """Profiles some steps of a program, from the third on, within one loop.

    The profiler synchronises when it stops, so it starts before a step's mark and stops after it; `unheard` excludes
    its own waits. Only one profiler can run at a time: a program that uses one keeps it.
    """

    def __init__(self, unheard: Callable[[], AbstractContextManager[None]], steps: int = 8) -> None:
        self.failure: str | None = "no step was profiled: the program made too few"
        self._unheard = unheard
        self._left = steps
        self._profiler: Any = None
        self._mark: Any = None
        self._over = False

    def on_step(self, step: int | None) -> None:
        """A step begins, or the loop is over."""
        self._close_mark()
        if self._running and (step is None or not self._left):
            self._end()
        if step is None or step < WARM_UP or self._over:
            return
        if not self._running:
            self._begin()
        if self._running:
            self._left -= 1
            self._mark = torch.profiler.record_function(f"{MARK}{step}")
            self._mark.__enter__()

    def finish(self) -> list[Activity]:
        """What was profiled; nothing, and a `failure`, where it could not be."""
        self._close_mark()
        if self._running:
            self._end()
        if self.failure is not None:
            return []
        found = activities(self._profiler.profiler.kineto_results.events())
        if not any(each.is_call for each in found):
            self.failure = (
                "the profiler saw no call of the CUDA runtime (CUPTI is not there, or something else uses it)"
            )
        return found

    @property
    def _running(self) -> bool:
        return self._profiler is not None and not self._over

    def _begin(self) -> None:
        if _profiler_enabled():
            self.failure, self._over = "the program uses the profiler itself", True
            return
        kinds = torch.profiler.ProfilerActivity
        with self._unheard():
            self._profiler = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
            self._profiler.start()
        self.failure = None

    def _end(self) -> None:
        self._over = True
        with self._unheard():
            self._profiler.stop()

    def _close_mark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


# ---- reading a profile


def activities(events: Iterable[Any]) -> list[Activity]:
    """The entries of the profiler's raw results, without copies of the program's own marks on the device's row."""
    found = [
        Activity(
            plain_name(event.name()),
            event.device_type() == DeviceType.CUDA,
            event.start_ns(),
            event.duration_ns(),
            event.correlation_id(),
            event.device_resource_id(),
        )
        for event in events
    ]
    on_host = {each.name for each in found if not each.on_device}
    return [each for each in found if not each.on_device or each.name not in on_host]


def windows(found: Iterable[Activity]) -> list[Window]:
    """The windows of the marked steps, in order."""
    marks = [each for each in found if not each.on_device and each.name.startswith(MARK)]
    return sorted(
        (Window(int(each.name.removeprefix(MARK)), each.start, each.end) for each in marks),
        key=lambda window: window.start,
    )


def counts(found: Sequence[Activity]) -> dict[int, Counter[str]]:
    """For each marked step, the number of each counted call, of each kind of copy, and of kernel launches.

    The device may work much later than it was called: a copy or kernel belongs to the step of the call that
    started it.
    """
    marked = windows(found)
    called = {each.correlation: each.start for each in found if each.is_call}
    counted: dict[int, Counter[str]] = {window.step: Counter() for window in marked}
    for each in found:
        if each.is_call and each.name in _COUNTED:
            name, step = each.name, _step_at(marked, each.start)
        elif each.on_device and (COPY.fullmatch(each.name) or not MEMORY.fullmatch(each.name)):
            name = each.name if COPY.fullmatch(each.name) else KERNELS
            step = _step_at(marked, called.get(each.correlation, each.start))
        else:
            continue
        if step is not None:
            counted[step][name] += 1
    return counted


def copies(counted: Counter[str], way: str, memory: str | None = None) -> int:
    """How many of the copies went `HtoD` or `DtoH`, and, if asked for, with `Pinned` or `Pageable` host memory."""
    matches = ((COPY.fullmatch(name), number) for name, number in counted.items())
    return sum(
        number
        for match, number in matches
        if match and match["way"] == way and memory in (None, match["source"], match["target"])
    )


def _step_at(marked: Sequence[Window], time: int) -> int | None:
    place = bisect_right(marked, time, key=lambda window: window.start) - 1
    return marked[place].step if place >= 0 and time < marked[place].end else None
