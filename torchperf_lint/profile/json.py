"""The JSON output of `torchperf-lint profile`: one object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.report.json import render as render_findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.profile.summary import Found, Summary
    from torchperf_lint.report import Context
    from torchperf_lint.verify.events import Place


def render(name: str, summary: Summary, context: Context) -> str:
    """A trace as an object: milliseconds and counts are averages per step, or totals where `steps` is 0."""
    number, time = summary.outside
    described = {
        "trace": name,
        "steps": summary.steps,
        "step_ms": _time(summary.step),
        "waits": float(summary.waits),
        "wait_ms": _time(summary.milliseconds),
        "outside_of_steps": {"waits": number, "wait_ms": _time(time)},
        "has_runtime_calls": summary.has_runtime,
        "has_stacks": summary.has_stacks,
        "lines": [_line(each, context) for each in summary.found],
        "not_seen": _findings(summary.not_seen, context),
    }
    return json.dumps(described, indent=2)


def _line(found: Found, context: Context) -> dict[str, Any]:
    measured = found.measured
    spot = measured.spot
    return {
        "filename": spot.where.file,
        "row": spot.where.row or None,
        "rows": list(spot.rows),
        "function": spot.function or None,
        "on_disk": spot.on_disk,
        "changed": spot.changed,
        "may_be": list(spot.file_may_be),
        "via": _place(spot.via),
        "operator": measured.operator,
        "within": measured.within or None,
        "calls": list(measured.calls),
        "certain": measured.certain,
        "waits": float(measured.waits),
        "wait_ms": _time(measured.milliseconds),
        "found": bool(found.findings and found.certain),
        "findings": _findings(found.findings, context),
    }


def _place(place: Place | None) -> dict[str, Any] | None:
    return None if place is None else {"filename": place.file, "row": place.row}


def _findings(findings: Iterable[Diagnostic], context: Context) -> list[Any]:
    """The findings in the form of `torchperf-lint --output-format json`."""
    return list(json.loads("\n".join(render_findings(findings, context))))


def _time(milliseconds: float) -> float:
    return round(milliseconds, 6)
