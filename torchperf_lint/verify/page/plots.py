"""The plots over all programs: waits per step before and after, and how step times compare."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify.page.entries import LABELS
from torchperf_lint.verify.page.markup import join, percent, picture, plain, short, tag
from torchperf_lint.verify.pairs import ACCEPTED, UNCHANGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchperf_lint.verify.page.entries import Entry
    from torchperf_lint.verify.page.markup import Markup
    from torchperf_lint.verify.step_times import StepTimes

_HEIGHT = 24
_MIDDLE = _HEIGHT / 2
_MOST_TICKS = 6
_CLOSEST = 0.06  # of the width, between two ticks


class Row(NamedTuple):
    """A program's row in a plot: shapes on its track, its description, the value at the end, remarks below the name."""

    told: str
    shapes: list[Markup]
    value: str
    remarks: list[str]


class Scale(NamedTuple):
    """An axis from 0 to its last tick, linear or square-root; the latter leaves room for small values."""

    ticks: list[float]
    in_roots: bool = False

    def at(self, value: float) -> str:
        """A value's coordinate."""
        share = value / self.ticks[-1]
        return percent(math.sqrt(share) if self.in_roots else share)


def waits(entries: Sequence[Entry]) -> Markup:
    """For each program a line from its waits per step unfixed to those after the fixes."""
    highest = max((float(each.waits) for entry in entries for each in entry.counts().values()), default=0)
    scale = Scale(root_ticks(highest), in_roots=True)
    return _plot(entries, scale, lambda entry: _waits_row(entry, scale))


def step_times(entries: Sequence[Entry]) -> Markup:
    """For each program how many times as long a step takes unfixed as fixed, with the interval of the ratio."""
    timed = [entry for entry in entries if entry.times is not None and _ratios(entry.times)]
    scale = Scale(even_ticks(max((each for entry in timed if entry.times for each in _ratios(entry.times)), default=1)))
    return _plot(timed, scale, lambda entry: _times_row(entry, scale))


def even_ticks(highest: float) -> list[float]:
    """Round numbers from 0 to at least the highest one, evenly spaced."""
    least = max(highest, 1) / _MOST_TICKS
    power = 10 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    return [number * step for number in range(math.ceil(round(max(highest, 1) / step, 9)) + 1)]


def root_ticks(highest: float) -> list[float]:
    """The numbers 1, 2, 5, 10, 20 and so on to at least the highest one, and 0; fewer where they would be crowded."""
    ticks = [float(factor * 10**power) for power in range(10) for factor in (1, 2, 5)]
    last = next(tick for tick in ticks if tick >= highest)
    chosen = [last]
    for tick in reversed(ticks[: ticks.index(last)]):
        share = math.sqrt(tick / last)
        if min(share, math.sqrt(chosen[0] / last) - share) > _CLOSEST:
            chosen.insert(0, tick)
    return [0.0, *chosen]


def _plot(entries: Iterable[Entry], scale: Scale, row: Callable[[Entry], Row]) -> Markup:
    groups = []
    for rule, members in groupby(entries, key=lambda entry: entry.proof.case.workload.rule):
        items = [_item(entry, row(entry), scale) for entry in members]
        heading = tag("h3", tag("b", rule.code), " ", rule.name)
        groups.append(tag("section", heading, tag("ul", *items)))
    labels = [tag("text", plain(each), x=scale.at(each), y=12, class_="tick") for each in scale.ticks]
    drawing = tag("svg", *labels, width="100%", height=18)
    return tag(
        "div", tag("div", tag("span"), drawing, tag("span"), class_="scale", aria_hidden="true"), *groups, class_="plot"
    )


def _item(entry: Entry, row: Row, scale: Scale) -> Markup:
    grid = [
        tag("line", x1=scale.at(each), x2=scale.at(each), y1=0, y2=_HEIGHT, class_="grid" if each else "grid zero")
        for each in scale.ticks
    ]
    what = tag(
        "span",
        tag("a", entry.name, href=f"#{entry.anchor}"),
        *(tag("small", remark) for remark in row.remarks),
        class_="what",
    )
    track = picture(row.told, *grid, *row.shapes, height=_HEIGHT)
    value = tag("span", row.value, class_="value")
    return tag("li", what, track, value, class_=None if entry.proof.verdict in (ACCEPTED, UNCHANGED) else "refused")


def _waits_row(entry: Entry, scale: Scale) -> Row:
    counts = entry.counts()
    if not counts:
        return Row(f"{entry.name}: {entry.proof.verdict}", [], "–", [entry.proof.verdict])
    waits = {variant: float(each.waits) for variant, each in counts.items()}
    first, last = next(iter(waits)), list(waits)[-1]
    low, high = min(waits.values()), max(waits.values())
    shapes = [tag("line", x1=scale.at(low), x2=scale.at(high), y1=_MIDDLE, y2=_MIDDLE, class_="way")]
    for variant, each in waits.items():
        kind = "before" if variant == UNFIXED else "after" if variant == last else "between"
        shapes.append(tag("circle", cx=scale.at(each), cy=_MIDDLE, r=4 if kind == "between" else 5.5, class_=kind))
    told = ", ".join(f"{plain(each)} {LABELS[variant]}" for variant, each in waits.items())
    remarks = []
    if entry.proof.verdict != ACCEPTED:
        remarks.append(entry.proof.verdict)
    staged = [short(each.staged) for each in counts.values()]
    if staged[0] != staged[-1]:
        remarks.append(f"staged copies {staged[0]} → {staged[-1]}")
    value = short(waits[first]) if first == last else join([short(waits[first]), " → ", tag("b", short(waits[last]))])
    return Row(f"{entry.name}, waits per step: {told}", shapes, value, remarks)


def _times_row(entry: Entry, scale: Scale) -> Row:
    comparisons = entry.times.comparisons if entry.times else {}
    shapes = [tag("line", x1=scale.at(1), x2=scale.at(1), y1=0, y2=_HEIGHT, class_="grid zero")]
    last = list(comparisons)[-1]
    for variant, each in comparisons.items():
        if not all(map(math.isfinite, each[:3])):
            continue
        x1, x2 = scale.at(each.low), scale.at(each.high)
        shapes.append(tag("line", x1=x1, x2=x2, y1=_MIDDLE, y2=_MIDDLE, class_="interval"))
        kind = "after" if variant == last else "between"
        shapes.append(tag("circle", cx=scale.at(each.ratio), cy=_MIDDLE, r=5.5, class_=kind))
    told = "; ".join(
        f"{LABELS[variant]} {plain(each.ratio)}, 95 % from {plain(each.low)} to {plain(each.high)}"
        for variant, each in comparisons.items()
    )
    name = f"{entry.name}, unfixed step time over fixed step time: {told}"
    return Row(name, shapes, join([tag("b", short(comparisons[last].ratio)), " ×"]), [])


def _ratios(times: StepTimes) -> list[float]:
    return [ratio for each in times.comparisons.values() for ratio in (each.ratio, each.high) if math.isfinite(ratio)]
