"""Timelines of host and device over a few steps: in order of events, or in real time from a GPU."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.verify.child import OK
from torchperf_lint.verify.events import COPIES
from torchperf_lint.verify.page.entries import LABELS, on_gpu
from torchperf_lint.verify.page.markup import percent, picture, plain, tag

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from torchperf_lint.verify.events import Event, Place
    from torchperf_lint.verify.page.entries import Entry
    from torchperf_lint.verify.page.markup import Markup
    from torchperf_lint.verify.runs import Run

STEPS = 3
_CROWDED = 90
"""With more events than this, only one step is drawn."""

_HOST, _DEVICE, _BAR, _HEIGHT = 20, 46, 18, 66
_FINEST = 1 / 1200
"""Items closer together than this share of the width are drawn as one."""

_LANES = ("waits", "queues", "works")

_ORDER = (
    "Order of events, not time: a simulated device counts waits, and only a GPU can tell how long they last. Once the "
    "host has waited, the device has nothing to do until more is queued. Shown is where the unfixed program "
    "waits most."
)
_TIME = "As the profiler of a real GPU saw it; profiling itself slows the host down. All variants share one time axis."


class Span(NamedTuple):
    """A span of a lane, in shares of the width; `told` is its tooltip."""

    start: float
    end: float
    kind: str  # class of the shape
    told: str = ""


def timelines(entry: Entry) -> Markup:
    """The strips of all variants, one below the other on a common axis, and what they mean; empty without any."""
    runs = {variant: run for variant, run in entry.proof.runs.items() if run.status == OK}
    if on_gpu(entry.proof):
        recorded = {variant: run.report["counters"].get("timeline") for variant, run in runs.items()}
        strips = _in_time({variant: each for variant, each in recorded.items() if each and each["steps"]})
        meaning, kinds = _TIME, set(_LANES)
    else:
        strips = _in_order(entry, runs)
        copies = [each for run in runs.values() for each in run.events if each.kind in COPIES and not each.waits]
        meaning, kinds = _ORDER, {*_LANES, *("staged" if each.staged else "copy" for each in copies)}
    if not strips:
        return tag("p", "There are no steady steps to draw.", class_="note")
    return tag("figure", *strips, tag("figcaption", _legend(kinds), tag("p", meaning)), class_="timeline")


def _strip(variant: str, told: str, steps: Iterable[tuple[float, str]], spans: Iterable[Span], after: str) -> Markup:
    shapes = []
    for start, label in steps:
        shapes.append(tag("line", x1=percent(start), x2=percent(start), y1=0, y2=_HEIGHT, class_="grid"))
        shapes.append(tag("text", label, x=percent(start), y=11, dx=5, class_="step"))
    shapes += map(_shape, spans)
    heading = tag("p", tag("b", LABELS[variant]), tag("span", after), class_="strip-name")
    lanes = tag("div", tag("span", "host"), tag("span", "device"), class_="lanes", aria_hidden="true")
    drawing = picture(f"Host and device, {LABELS[variant]}", *shapes, height=_HEIGHT, description=told)
    return tag("div", heading, lanes, drawing, class_="strip")


def _shape(span: Span) -> Markup:
    told = [tag("title", span.told)] if span.told else []
    if span.kind in ("copy", "staged"):
        return tag("circle", *told, cx=percent(span.start), cy=_HOST + _BAR / 2, r=4, class_=span.kind)
    top, height = {"queues": (_HOST + _BAR / 2 - 2, 4), "works": (_DEVICE, _BAR)}.get(span.kind, (_HOST, _BAR))
    width = percent(span.end - span.start)
    return tag("rect", *told, x=percent(span.start), y=top, width=width, height=height, class_=span.kind)


def _legend(kinds: Container[str]) -> Markup:
    marks = {
        "waits": "the host stands still",
        "queues": "it runs on and queues work",
        "works": "the device has work",
        "copy": "a copy that nobody waits for",
        "staged": "a copy of pageable memory: the host may wait unseen",
    }
    shown = [tag("li", tag("i", class_=kind), text) for kind, text in marks.items() if kind in kinds]
    return tag("ul", *shown, class_="legend")


# ---- in order of events


def _in_order(entry: Entry, runs: dict[str, Run]) -> list[Markup]:
    chosen = _steps_to_show(runs)
    return [_ordinal(entry, variant, run, chosen) for variant, run in runs.items()] if chosen else []


def _steps_to_show(runs: dict[str, Run]) -> list[int]:
    """The steady steps in a row of one loop in which the first run waits most; the earliest where several do."""
    if not runs:
        return []
    first, *others = runs.values()
    loops: dict[Place, list[int]] = {}
    for step, loop in sorted(first.steady.items()):
        if all(step in run.steady for run in others):
            loops.setdefault(loop, []).append(step)
    events = Counter(each.step for each in first.events)
    waits = Counter(each.step for each in first.events if each.waits)
    chosen: list[int] = []
    for length in (STEPS, 1):
        windows = [steps[at : at + length] for steps in loops.values() for at in range(max(len(steps) - length + 1, 1))]
        chosen = max(windows, key=lambda steps: sum(waits[step] for step in steps), default=[])
        if sum(events[step] for step in chosen) <= _CROWDED:
            break
    return chosen


def _ordinal(entry: Entry, variant: str, run: Run, steps: Sequence[int]) -> Markup:
    events = [[each for each in run.events if each.step == step] for step in steps]
    waits = [sum(each.waits for each in found) for found in events]
    told = "; ".join(f"step {step}: {count} waits" for step, count in zip(steps, waits, strict=True))
    width = 1 / len(steps)
    labels = [(place * width, f"step {step}{_operators(run, step)}") for place, step in enumerate(steps)]
    return _strip(variant, told, labels, _spans(entry, events, width), _waits_in(sum(waits), len(steps)))


def _operators(run: Run, step: int) -> str:
    number = sum(count for each, *_, count in run.report["operators"] if each == step)
    return f" · {number} operators" if number else ""


def _waits_in(waits: int, steps: int) -> str:
    return f"{waits or 'no'} {'wait' if waits == 1 else 'waits'} in {steps} {'step' if steps == 1 else 'steps'}"


def _spans(entry: Entry, events: Sequence[Sequence[Event]], width: float) -> list[Span]:
    """The spans of the lanes. After a wait of the host, the device is idle until more work is queued."""
    spans: list[Span] = []
    host = device = 0.0
    for place, found in enumerate(events):
        slot = width / (len(found) + 0.5)
        bar, pause = min(0.5 * slot, 0.024), min(0.3 * slot, 0.014)
        for number, event in enumerate(found):
            end = place * width + (number + 1) * slot
            told = f"{event.operator} at {entry.shown_place(event.where)}"
            if event.waits:
                spans += [
                    Span(host, end - bar, "queues"),
                    Span(device, end, "works"),
                    Span(end - bar, end, "waits", told),
                ]
                host, device = end, end + pause
            elif event.kind in COPIES:
                spans.append(Span(end - bar / 2, end, "staged" if event.staged else "copy", told))
    spans += [Span(host, 1, "queues"), Span(min(device, 1), 1, "works")]
    return sorted(spans, key=lambda span: span.kind in ("copy", "staged"))  # circles lie above the rest


# ---- in time


def _in_time(recorded: dict[str, dict[str, Any]]) -> list[Markup]:
    lengths = {variant: each["steps"][-1][1] + each["steps"][-1][2] for variant, each in recorded.items()}
    longest = max(lengths.values(), default=0)
    return [_timed(variant, each, lengths[variant], longest) for variant, each in recorded.items()] if longest else []


def _timed(variant: str, recorded: dict[str, Any], length: float, longest: float) -> Markup:
    def spans(entries: Iterable[Sequence[Any]], kind: str) -> list[Span]:
        return _merged(
            [Span(start / longest, (start + lasts) / longest, kind, name) for name, start, lasts, _ in entries]
        )

    device = recorded["device"]
    ends = [start + lasts for name, start, lasts, _ in device if _reads_pageable(name)]
    waits = [each for each in recorded["host"] if _stands_still(each, ends)]
    labels = [(start / longest, f"step {step}") for step, start, _ in recorded["steps"]]
    told = "; ".join(f"step {step}: {plain(lasts / 1000)} ms" for step, _, lasts in recorded["steps"])
    steps = len(recorded["steps"])
    after = f"{plain(length / 1000)} ms for {steps} {'step' if steps == 1 else 'steps'}"
    if recorded["left_out"]:
        after += f"; {recorded['left_out']} entries are not shown"
    drawn = [Span(0, length / longest, "queues"), *spans(device, "works"), *spans(waits, "waits")]
    return _strip(variant, told, labels, drawn, after)


def _reads_pageable(name: str) -> bool:
    return name.startswith("Memcpy DtoH") and "Pageable" in name


def _stands_still(call: Sequence[Any], ends: Sequence[float]) -> bool:
    """Whether a call waits by definition, or lasts until a copy to pageable memory is over."""
    name, start, lasts, _ = call
    if "Synchronize" in name or name == "cudaMemcpy":
        return True
    return name == "cudaMemcpyAsync" and any(start < end <= start + lasts for end in ends)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Spans of one kind without the gaps that cannot be seen, each wide enough to be seen."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start - merged[-1].end < _FINEST:
            before = merged[-1]
            merged[-1] = before._replace(end=max(before.end, span.end), told=before.told)
        else:
            merged.append(span)
    return [each._replace(start=max(each.start, 0), end=min(max(each.end, each.start + _FINEST), 1)) for each in merged]
