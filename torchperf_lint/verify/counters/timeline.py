"""A few steps of a profile as two rows, host and device, small enough to be drawn on a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify.counters.runtime import windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.verify.counters.runtime import Activity, Window

STEPS = 3
MOST = 1500
"""Maximum entries of a row; `left_out` counts the others."""

_LONGEST_NAME = 60


def timeline(found: Sequence[Activity]) -> dict[str, Any]:
    """The second to fourth profiled step; the first includes the profiler's start.

    Times are microseconds from the beginning of the first step shown. The host's row has the calls into the CUDA
    runtime, the device's row its activity, each entry with its name, start, duration, and thread or stream.
    """
    marked = windows(found)
    shown = marked[1 : 1 + STEPS] or marked[:STEPS]
    if not shown:
        return {"steps": [], "host": [], "device": [], "left_out": 0}
    begin, end = shown[0].start, shown[-1].end
    within = sorted((each for each in found if each.start < end and each.end > begin), key=lambda each: each.start)
    host = [_entry(each, begin) for each in within if each.is_call]
    device = [_entry(each, begin) for each in within if each.on_device]
    return {
        "steps": [_step(each, begin) for each in shown],
        "host": host[:MOST],
        "device": device[:MOST],
        "left_out": max(len(host) - MOST, 0) + max(len(device) - MOST, 0),
    }


def _step(window: Window, begin: int) -> list[float]:
    return [window.step, _microseconds(window.start - begin), _microseconds(window.end - window.start)]


def _entry(each: Activity, begin: int) -> list[Any]:
    return [_short(each.name), _microseconds(each.start - begin), _microseconds(each.duration), each.row]


def _microseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1000, 2)


def _short(name: str) -> str:
    """A kernel's name without its result type, its template arguments and its parameters."""
    if name.startswith("Memcpy"):
        return name
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    before = None
    while before != bare:
        before, bare = bare, re.sub(r"<[^<>]*>", "", bare)
    return bare.partition("(")[0].rstrip("<")[:_LONGEST_NAME] or name[:_LONGEST_NAME]
