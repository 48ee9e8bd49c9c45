"""A trace's summary: each line's wait per step, with the linter's findings."""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.verify.runs import Line
from torchperf_lint.verify.script import join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.profile.places import Places, Spot
    from torchperf_lint.profile.recording import Recording, Step
    from torchperf_lint.profile.waits import Wait


class Measured(NamedTuple):
    """The waits of one line or one function: per step, or in total without steps.

    `calls` are the runtime calls that wait, most frequent first. A wait that is not `certain` is a copy that may return
    early, or a read that may not be from the device.
    """

    spot: Spot
    operator: str
    within: str
    certain: bool
    calls: tuple[str, ...]
    waits: Fraction
    milliseconds: float


class _Key(NamedTuple):
    """The key by which waits are grouped into lines."""

    spot: Spot
    operator: str
    within: str
    certain: bool


class Found(NamedTuple):
    """A waiting line, with the findings on it or on its candidate rows."""

    measured: Measured
    findings: tuple[Diagnostic, ...]
    certain: bool  # every candidate row has a finding


class Summary(NamedTuple):
    """A trace, line by line, longest waits first.

    `step` is the mean time of a step in milliseconds. `outside` are the number and the milliseconds of the waits
    before, between and after the steps.
    """

    steps: int
    step: float
    outside: tuple[int, float]
    has_runtime: bool
    has_stacks: bool
    found: list[Found]
    not_seen: list[Diagnostic]

    @property
    def confirmed(self) -> list[Found]:
        """The lines with a certain finding."""
        return [each for each in self.found if each.findings and each.certain]

    @property
    def possible(self) -> list[Found]:
        """The lines with a possible finding: the trace does not tell which row of the function waits."""
        return [each for each in self.found if each.findings and not each.certain]

    @property
    def not_found(self) -> list[Found]:
        """The waiting lines without a finding."""
        return [each for each in self.found if not each.findings]

    @property
    def waits(self) -> Fraction:
        """All waits, per step."""
        return sum((each.measured.waits for each in self.found), Fraction(0))

    @property
    def certain_waits(self) -> Fraction:
        """The number of certain waits, per step."""
        return sum((each.measured.waits for each in self.found if each.measured.certain), Fraction(0))

    @property
    def milliseconds(self) -> float:
        """The milliseconds that the host waits, per step."""
        return math.fsum(each.measured.milliseconds for each in self.found)


def measure(recording: Recording, found: Iterable[Wait], places: Places) -> tuple[list[Measured], tuple[int, float]]:
    """The waiting lines, longest first, and the waits outside steps; without steps, all waits count."""
    steps = recording.steps
    kept: list[Wait] = []
    outside: list[Wait] = []
    for wait in found:
        (kept if not steps or _in_step(wait, steps) else outside).append(wait)
    lines: dict[_Key, list[Wait]] = {}
    for wait in kept:
        spot = places.spot(wait)
        within = "" if spot.function else wait.within
        lines.setdefault(_Key(spot, wait.operator, within, wait.certain), []).append(wait)
    number = len(steps) or 1
    measured = [
        Measured(*key, _calls(waits), Fraction(len(waits), number), _milliseconds(waits) / number)
        for key, waits in lines.items()
    ]
    measured.sort(key=lambda each: (-each.milliseconds, -each.waits, each.spot.where, each.operator))
    return measured, (len(outside), _milliseconds(outside))


def _in_step(wait: Wait, steps: Sequence[Step]) -> bool:
    place = bisect_right(steps, wait.start, key=lambda step: step.start) - 1
    return place >= 0 and wait.start < steps[place].end


def _milliseconds(waits: Iterable[Wait]) -> float:
    return math.fsum(wait.duration for wait in waits) / 1000


def _calls(waits: Iterable[Wait]) -> tuple[str, ...]:
    counted = Counter(name for wait in waits for name in dict.fromkeys(wait.calls))
    return tuple(name for name, _ in counted.most_common())


def join_with(measured: Sequence[Measured], findings: Sequence[Diagnostic]) -> tuple[list[Found], list[Diagnostic]]:
    """The lines with their findings, and the findings on lines that do not wait."""
    rows = {each: _lines(each) for each in measured}
    joined = join(findings, [line for lines in rows.values() for line in lines])
    by_line: dict[Line, list[Diagnostic]] = {}
    for finding, lines in joined.confirmed:
        for line in lines:
            by_line.setdefault(line, []).append(finding)
    found = []
    for each, lines in rows.items():
        if lines:
            on_lines = {finding: None for line in lines for finding in by_line.get(line, ())}
            found.append(Found(each, tuple(on_lines), all(line in by_line for line in lines)))
        else:
            found.append(Found(each, tuple(_inside(each.spot, findings)), certain=False))
    seen = {finding for each in found for finding in each.findings}
    return found, [finding for finding in joined.not_seen if finding not in seen]


def _lines(measured: Measured) -> list[Line]:
    """The candidate rows, as input of `join`."""
    spot = measured.spot
    waits, staged = (measured.waits, Fraction(0)) if measured.certain else (Fraction(0), measured.waits)
    return [
        Line(where=spot.where._replace(row=row), via=spot.via, operator=measured.operator, waits=waits, staged=staged)
        for row in spot.rows
    ]


def _inside(spot: Spot, findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The findings in a function whose waiting row is unknown."""
    for finding in findings:
        if finding.row in spot.of_function and os.path.realpath(finding.path) == os.path.realpath(spot.where.file):
            yield finding
