"""The parts of a trace that are stored: per thread its frames and operators, calls that may wait, and steps."""

from __future__ import annotations

import functools
import math
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.knowledge.cuda_runtime import CALL, COPIES, COPY, SYNCHRONOUS, plain_name
from torchperf_lint.profile.frames import plain_frame
from torchperf_lint.profile.reading import BadTrace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeGuard

STEP = "ProfilerStep#"

_OPERATORS = frozenset({"cpu_op", "operator", "user_annotation"})
_FRAMES = "python_function"

Thread = tuple[Any, Any]
"""An event's process and thread, as in the trace."""


class Call(NamedTuple):
    """A call into the runtime that waits or may wait; times in microseconds."""

    name: str
    start: float
    duration: float
    thread: Thread
    correlation: Any  # shared with the copy that it starts on the device


class Step(NamedTuple):
    """The start and end of a step, in microseconds."""

    name: str
    start: float
    end: float


class Enclosing(NamedTuple):
    """An open span: its number in its thread, its start, its name, and its stack, if any."""

    number: int
    start: float
    name: str
    stack: str


class Spans:
    """Nested spans of one thread, in some 25 bytes each."""

    def __init__(self) -> None:
        self._starts, self._ends = array("d"), array("d")
        self._names, self._stacks = array("i"), array("i")

    def add(self, start: float, end: float, name: int, stack: int) -> None:
        """Add a span; names and stacks are given by number."""
        self._starts.append(start)
        self._ends.append(end)
        self._names.append(name)
        self._stacks.append(stack)

    def at(self, times: Sequence[float], texts: Sequence[str]) -> Iterator[list[Enclosing]]:
        """For each of some ascending times, the open spans, outermost first."""
        order = self._order()
        opened: list[int] = []
        following = 0
        for time in times:
            while following < len(order) and self._starts[order[following]] <= time:
                span = order[following]
                while opened and self._ends[opened[-1]] <= self._starts[span]:
                    opened.pop()
                opened.append(span)
                following += 1
            yield [
                Enclosing(span, self._starts[span], texts[self._names[span]], texts[self._stacks[span]])
                for span in opened
                if self._ends[span] > time
            ]

    def _order(self) -> Sequence[int]:
        """The spans sorted by start, enclosing ones first; exporters mostly write this order."""
        starts, ends = self._starts, self._ends
        if all((starts[at - 1], -ends[at - 1]) <= (starts[at], -ends[at]) for at in range(1, len(starts))):
            return range(len(starts))
        return sorted(range(len(starts)), key=lambda span: (starts[span], -ends[span]))


class Recording:
    """The parts of a trace that locate its waits."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self.frames: dict[Thread, Spans] = {}
        self.operators: dict[Thread, Spans] = {}
        self.calls: list[Call] = []
        self.reads: list[Call] = []  # operators that wait where they read from the device
        self.steps: list[Step] = []
        self.threads: dict[Thread, str] = {}
        self.copies: dict[Any, str] = {}
        self.has_runtime = False
        self.host_ends = -math.inf  # when the host's last operator or call begins
        self._numbers = {"": 0}

    def add(self, event: dict[str, Any]) -> None:
        """Add an event."""
        name, category = event.get("name"), event.get("cat")
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        thread = _plain(event.get("pid")), _plain(event.get("tid"))
        if event.get("ph") == "M" and name == "thread_name" and thread not in self.threads:
            self.threads[thread] = str(arguments.get("name", ""))
        start, duration = event.get("ts"), event.get("dur")
        if event.get("ph") != "X" or not (isinstance(name, str) and _is_time(start) and _is_time(duration)):
            return
        category = category.lower() if isinstance(category, str) else ""
        if category == _FRAMES:
            spans = self.frames.setdefault(thread, Spans())
            spans.add(start, start + duration, self._number(plain_frame(name)), 0)
        elif category in _OPERATORS and name.startswith(STEP):
            self.steps.append(Step(name, start, start + duration))
        elif category in _OPERATORS:
            self._add_operator(name, start, duration, thread, arguments.get("Call stack"))
        elif category.endswith(("runtime", "driver")):
            self._add_call(_call_name(name), start, duration, thread, arguments.get("correlation"))
        elif name.startswith("Memcpy ") and COPY.fullmatch(name):
            self.copies[_plain(arguments.get("correlation"))] = self.texts[self._number(name)]

    def _add_operator(self, name: str, start: float, duration: float, thread: Thread, stack: Any) -> None:
        spans = self.operators.setdefault(thread, Spans())
        number = self._number(stack) if isinstance(stack, str) and stack else 0
        spans.add(start, start + duration, self._number(name), number)
        self.host_ends = max(self.host_ends, start)
        if name in READS:
            self.reads.append(Call(self.texts[self._number(name)], start, duration, thread, None))

    def _add_call(self, name: str, start: float, duration: float, thread: Thread, correlation: Any) -> None:
        self.has_runtime = self.has_runtime or CALL.fullmatch(name) is not None
        self.host_ends = max(self.host_ends, start)
        if name in SYNCHRONOUS or name in COPIES:
            self.calls.append(Call(self.texts[self._number(name)], start, duration, thread, _plain(correlation)))

    def _number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


READS = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::nonzero"})
"""Operators that wait for the device if their input is there."""


def record(events: Iterable[dict[str, Any]]) -> Recording:
    """Store the relevant parts of a trace; raise BadTrace where another program wrote it."""
    recording = Recording()
    for event in events:
        recording.add(event)
    if not (recording.operators or recording.frames or recording.has_runtime or recording.steps):
        raise BadTrace("it is no trace of torch.profiler: there is no operator and no call of the CUDA runtime in it")
    recording.steps.sort(key=lambda step: step.start)
    return recording


_call_name = functools.cache(plain_name)


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and abs(value) < _LATEST


_LATEST = 1e18  # larger floats do not resolve microseconds


def _plain(value: Any) -> Any:
    """A number or a text unchanged, anything else as None: it identifies an event's process, thread or partner."""
    return value if isinstance(value, (int, str)) else None
