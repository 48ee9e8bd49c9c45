"""The account of a user's program as one JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_lint.report.json import plain
from torchperf_lint.report.sources import Sources as Texts

if TYPE_CHECKING:
    from fractions import Fraction

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.account import Account, CountedLoop, WaitingLine
    from torchperf_lint.verify.events import Place
    from torchperf_lint.verify.preview import Preview
    from torchperf_lint.verify.runs import Run
    from torchperf_lint.verify.sources import Sources


def render(account: Account) -> str:
    """The object in one line."""
    return json.dumps(as_json(account))


def as_json(account: Account) -> dict[str, Any]:
    """The object as plain data: display paths, counts per step, shares of all waits from 0 to 1."""
    writer = _Writer(account.sources)
    report = account.run.report
    return {
        "script": account.sources.shown(account.sources.script),
        "status": report["status"],
        "error": report["error"],
        "failed_at": writer.place(report.get("failed_at")),
        "stopped": report["stopped"],
        "device": report["device"],
        "disagreements": list(report["counters"].get("disagreements", ())),
        "steps": report["steps"],
        "counted": len(account.run.steady),
        **_counts(account.counts.waits, account.counts.staged),
        "loops": [writer.loop(loop) for loop in account.loops],
        "not_seen": [{**writer.finding(each), "ran": account.ran(each)} for each in account.not_seen],
        "failures": account.failures,
        "preview": account.preview and writer.preview(account.preview),
    }


class _Writer:
    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._texts = Texts(lambda path: Path(path).read_bytes())

    def place(self, place: Place | list[Any] | None) -> dict[str, Any] | None:
        return {"filename": self._sources.shown(place[0]), "row": place[1]} if place else None

    def loop(self, loop: CountedLoop) -> dict[str, Any]:
        return {
            "location": self.place(loop.where),
            "steps": loop.steps,
            **_counts(loop.waits, loop.staged),
            "lines": [self._line(line) for line in loop.lines],
        }

    def finding(self, found: Diagnostic) -> dict[str, Any]:
        data = plain(found, self._texts)
        shown = self._sources.shown
        because = [{**step, "filename": shown(step["filename"])} for step in data["because"]]
        path = [*(f"{step['filename']}:{step['row']}" for step in because), f"{shown(found.path)}:{found.row}"]
        return {**data, "filename": shown(found.path), "because": because, "path": path}

    def preview(self, told: Preview) -> dict[str, Any]:
        fixes = [
            {"filename": self._sources.shown(path), "codes": sorted(each.code for each in fixed.applied)}
            for path, fixed in told.fixes.items()
        ]
        runs = {"before": told.before, "after": told.after} if told.compared else {}
        return {
            "obstacle": told.obstacle,
            "fixes": fixes,
            "not_loaded_from_the_copy": [self._sources.shown(path) for path in told.stray],
            **{name: self._run(run) for name, run in runs.items()},
            "compared": [
                {"aspect": each.aspect, "verdict": each.verdict, "differences": list(each.texts)}
                for each in told.compared
            ],
            "dangers": list(told.dangers),
        }

    def _run(self, run: Run) -> dict[str, Any]:
        counts = run.counts()
        loops = [
            {"location": self.place(loop.where), "steps": loop.steps, **_counts(loop.waits, loop.staged)}
            for loop in run.loops()
        ]
        return {"steps": run.report["steps"], **_counts(counts.waits, counts.staged), "loops": loops}

    def _line(self, line: WaitingLine) -> dict[str, Any]:
        return {
            "location": self.place(line.where),
            **_counts(line.waits, line.staged),
            "share": float(line.share),
            "operators": [
                {"name": way.operator, "via": self.place(way.via), **_counts(way.waits, way.staged)}
                for way in line.ways
            ],
            "findings": [self.finding(each) for each in line.found],
        }


def _counts(waits: Fraction, staged: Fraction) -> dict[str, float]:
    return {"waits_per_step": round(float(waits), 6), "staged_per_step": round(float(staged), 6)}
