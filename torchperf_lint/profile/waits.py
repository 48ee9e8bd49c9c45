"""Finds the host's waits in a recording: their calls, their length, and the operator and frames around them."""

from __future__ import annotations

from itertools import groupby, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.cuda_runtime import COPIES, COPY, DEVICE_WIDE
from torchperf_lint.profile.frames import built_in, parse_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.profile.recording import Call, Enclosing, Recording, Spans, Thread

_BACKWARD = "run_backward"
_ATEN = "aten::"
_PROFILER = ("torch/autograd/profiler.py(", "torch/profiler/profiler.py(")


class Wait(NamedTuple):
    """One wait; times in microseconds.

    `frames` are the names of the enclosing Python frames, innermost first. `operator` is what the innermost frame
    called: the outermost operator, or else the call itself. `within` is the name that the program or autograd gives to
    the enclosing work.
    """

    start: float
    duration: float
    calls: tuple[str, ...]
    operator: str
    within: str
    frames: tuple[str, ...]
    thread: Thread
    certain: bool


class _Seen(NamedTuple):
    """A call with its enclosing operators and frames, outermost first."""

    call: Call
    operators: list[Enclosing]
    frames: list[Enclosing]


def waits(recording: Recording) -> list[Wait]:
    """All waits, ordered by start.

    Where the trace has no runtime calls, these are the operators that read from the device.
    """
    calls = list(_calls(recording)) if recording.has_runtime else recording.reads
    seen = _surroundings(recording, calls)
    grouped = _grouped(recording, seen) if recording.has_runtime else ([each] for each in seen)
    found = [_wait(recording, group) for group in grouped]
    return sorted((each for each in found if not _is_of_profiler(each)), key=attrgetter("start"))


def _calls(recording: Recording) -> Iterator[Call]:
    """The calls that wait and the copies that may; DtoH copies to pinned memory only together with a following wait."""
    for call in recording.calls:
        if call.name in DEVICE_WIDE and call.start >= recording.host_ends:
            continue  # the profiler waits for the device before it stops
        if call.name not in COPIES or _is_to_host(recording, call) or _is_pageable(recording, call):
            yield call


def _is_to_host(recording: Recording, call: Call) -> bool:
    copy = COPY.fullmatch(recording.copies.get(call.correlation, ""))
    return copy is not None and copy["way"] == "DtoH"


def _is_pageable(recording: Recording, call: Call) -> bool:
    copy = COPY.fullmatch(recording.copies.get(call.correlation, ""))
    return copy is not None and "Pageable" in (copy["source"], copy["target"])


def _is_of_profiler(wait: Wait) -> bool:
    return any(frame.startswith(_PROFILER) or f"-packages/{_PROFILER[0]}" in frame for frame in wait.frames)


# ---- the surroundings of a call


def _surroundings(recording: Recording, calls: Iterable[Call]) -> list[_Seen]:
    found = []
    by_thread = sorted(calls, key=lambda call: (str(call.thread), call.start, -call.duration))
    for thread, members in groupby(by_thread, key=attrgetter("thread")):
        of_thread = list(_outermost(members))
        operators = _open(recording.operators.get(thread), of_thread, recording.texts)
        frames = _open(recording.frames.get(thread), of_thread, recording.texts)
        found += [_Seen(*each) for each in zip(of_thread, operators, frames, strict=True)]
    return _with_frames_of_backward(recording, found)


def _outermost(calls: Iterable[Call]) -> Iterator[Call]:
    """The outermost of nested calls: the runtime waits by calling the driver."""
    last: Call | None = None
    for call in calls:
        if last is None or not _lies_in(call, last):
            yield call
            last = call


def _lies_in(call: Call, other: Call) -> bool:
    """Whether a call is nested in one that began before; rounded to microseconds, it may also directly follow it."""
    end = other.start + other.duration
    return call.start + call.duration <= end and (call.start < end or call.start == other.start)


def _open(spans: Spans | None, calls: Sequence[Call], texts: Sequence[str]) -> Iterable[list[Enclosing]]:
    return [[] for _ in calls] if spans is None else spans.at([call.start for call in calls], texts)


def _with_frames_of_backward(recording: Recording, seen: list[_Seen]) -> list[_Seen]:
    """Give the calls of autograd's threads the frames of the `backward` call that they work for."""
    bare = sorted((each for each in seen if not each.frames), key=lambda each: each.call.start)
    callers: dict[Call, list[Enclosing]] = {}
    for spans in recording.frames.values() if bare else ():
        for each, frames in zip(bare, _open(spans, [each.call for each in bare], recording.texts), strict=True):
            if frames and built_in(frames[-1].name) == _BACKWARD:
                callers[each.call] = frames
    return [each._replace(frames=callers.get(each.call, each.frames)) for each in seen]


# ---- which calls make one wait


def _grouped(recording: Recording, seen: Iterable[_Seen]) -> Iterator[list[_Seen]]:
    """Groups calls into waits: a copy together with the call in the same operator that waits for it."""
    for _, members in groupby(seen, key=_operation):
        copy: _Seen | None = None
        for each in members:
            if each.call.name in COPIES:
                if copy is not None and _is_pageable(recording, copy.call):
                    yield [copy]
                copy = each
            else:
                yield [each] if copy is None else [copy, each]
                copy = None
        if copy is not None and _is_pageable(recording, copy.call):
            yield [copy]


def _operation(seen: _Seen) -> tuple[Thread, object]:
    """A key that is equal for calls of one operator; calls without an operator have their own."""
    return seen.call.thread, seen.operators[-1].number if seen.operators else seen.call


def _wait(recording: Recording, group: Sequence[_Seen]) -> Wait:
    last = group[-1]
    certain = recording.has_runtime and (last.call.name not in COPIES or _is_to_host(recording, last.call))
    frames = tuple(frame.name for frame in reversed(last.frames))
    if not frames:
        stacks = [operator.stack for operator in reversed(last.operators) if operator.stack]
        frames = tuple(parse_stack(stacks[0])) if stacks else ()
    operator = _operator(last)
    outermost = last.operators[0].name if last.operators else ""
    return Wait(
        group[0].call.start,
        sum(each.call.duration for each in group),
        tuple(each.call.name for each in group) if recording.has_runtime else (),
        operator,
        "" if outermost == operator else outermost,
        frames,
        last.call.thread,
        certain,
    )


def _operator(seen: _Seen) -> str:
    """What the innermost frame called: the outermost torch operator around the call."""
    begins = seen.frames[-1].start if seen.frames else 0.0
    inside = [operator.name for operator in seen.operators if operator.start >= begins]
    of_torch = list(takewhile(lambda name: name.startswith(_ATEN), reversed(inside)))
    return (of_torch or inside or [seen.call.name])[-1]
