"""`torchperf-lint verify --script`: a user's program, run as it is, its waits beside what the linter finds."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.config import BadConfig, load
from torchperf_lint.engine import registry
from torchperf_lint.engine.gather import look_at
from torchperf_lint.engine.jobs import Disk, Job, run_job
from torchperf_lint.engine.layout import layout_of
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.runs import run_program
from torchperf_lint.verify.tables import per_step, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.runs import Line, Run

CLEAN, FOUND, FAILED = 0, 1, 2


class Joined(NamedTuple):
    """Findings and waiting lines that mean the same, and those that have no counterpart."""

    confirmed: list[tuple[Diagnostic, list[Line]]]
    not_seen: list[Diagnostic]
    not_found: list[Line]


def verify(script: Path, arguments: Sequence[str], device: str, steps: int | None) -> int:
    """Run the script, lint every file of the user's that it loaded, print both joined; return the exit status."""
    if not script.is_file():
        return _complain(f"{script}: {'this is no file' if script.exists() else 'there is no such file'}")
    if not os.access(script, os.R_OK):
        return _complain(f"{script}: it cannot be read")
    script = script.resolve()
    run = run_program(script, device, arguments, steps=steps, live=True)
    sys.stdout.flush()
    if run.status != OK:
        _complain(f"{os.path.relpath(script)}: {_what_happened(run)}")
        if not run.events:
            return FAILED
    try:
        found, failures = _lint(run.report["files"] or [str(script)], str(script))
    except BadConfig as error:
        return _complain(str(error.failure))
    for failure in failures:
        print(failure, file=sys.stderr)
    joined = join(found, run.lines())
    print(_table(run, joined), end="")
    if run.status != OK or failures:
        return FAILED
    return FOUND if any(joined) else CLEAN


def _what_happened(run: Run) -> str:
    """Why the program did not come to its end, and where."""
    row = run.report.get("failed_at")
    at = f", at {_place(*row)}" if row else ""
    # What is not simulated says so itself.
    return run.report["error"] + at if run.status == NOT_SIMULATED else f"{run.status}: {run.report['error']}{at}"


def join(found: Iterable[Diagnostic], lines: Iterable[Line]) -> Joined:
    """Lay findings and waiting lines side by side.

    A finding and a line belong together if the line is part of the statement that is reported or, where a rule reports
    what is made once and costs at its uses, one of the places that the finding gives as its evidence.
    """
    waiting = list(lines)
    explained: set[Line] = set()
    confirmed, not_seen = [], []
    for each in found:
        seen = [line for line in waiting if _is_about(each, line)]
        explained.update(seen)
        if seen:
            confirmed.append((each, seen))
        else:
            not_seen.append(each)
    return Joined(confirmed, not_seen, [line for line in waiting if line not in explained])


def _is_about(found: Diagnostic, line: Line) -> bool:
    first, last = found.noqa_rows
    path, row = os.path.realpath(line.where.file), line.where.row
    if path == os.path.realpath(found.path) and min(first, found.row) <= row <= max(last, found.end_row):
        return True
    if not _costs_at_use(found.code):
        return False
    return any(row == each.row and path == os.path.realpath(each.path or found.path) for each in found.because)


def _costs_at_use(code: str) -> bool:
    rule = registry.find_rule(code)
    return rule is not None and rule.costs_at_use


def _lint(files: Sequence[str], script: str) -> tuple[list[Diagnostic], list[str]]:
    """The findings in these files, as parts of the script's project, and the files that cannot be linted."""
    settings = load(os.path.dirname(script), None)
    around = Disk(lambda: look_at(layout_of(files, script), settings.hints, None))
    reports = []
    for file in files:
        codes = tuple(rule.code for rule in settings.rules_for(file))
        # A suppression that is not needed is no matter of waits.
        job = Job(file, codes, settings.target, settings.hints, report_unused=False)
        reports.append(run_job(job, around).report)
    failures = [str(report.failure) for report in reports if report.failure is not None]
    return [each for report in reports for each in report.diagnostics], failures


def _table(run: Run, joined: Joined) -> str:
    rows = [] if run.status == OK else [_until_its_end(run)]
    rows += [_headline(run), *run.report["counters"].get("disagreements", ())]
    rows += ["", _heading("found and confirmed", joined.confirmed)]
    for found, lines in joined.confirmed:
        rows.append(f"  {_place(found.path, found.row)}  {found.code} {found.message}")
        rows += [f"      {_seen(line)}" for line in lines]
    if run.status == OK:
        until = ", until it was stopped" if run.report["stopped"] else ""
        rows += ["", _heading(f"found, not seen{until}", joined.not_seen)]
        rows += [f"  {_place(found.path, found.row)}  {found.code} {found.message}" for found in joined.not_seen]
    rows += ["", _heading("seen, not found", joined.not_found)]
    rows += [f"  {_seen(line)}" for line in joined.not_found]
    if run.status != OK:
        rows += ["", f"found, neither confirmed nor refuted: {len(joined.not_seen) or 'nothing'}"]
    return "\n".join(rows) + "\n"


def _until_its_end(run: Run) -> str:
    """What is to be known of the counts of a program that did not come to its end."""
    steps = run.report["steps"]
    after = f"after {steps} step{'' if steps == 1 else 's'}" if steps else "before its first step"
    at = run.report.get("failed_at")
    return f"The program ended early, {after}{f', at {_place(*at)}' if at else ''}. Until then:"


def _headline(run: Run) -> str:
    counts = run.counts()
    device = run.report["device"]["name"]
    place = "the simulated device" if device == "simulated" else device
    waits = f"the host waits {per_step(counts.waits)} times"
    staged = f", and {per_step(counts.staged)} copies may wait" if counts.staged else ""
    if not run.steady:
        return f"No steps to count over were seen on {place}; in all {waits}{staged}."
    loops = len(set(run.steady.values()))
    over = f" of each of {loops} loops, taken together" if loops > 1 else ""
    counted = f"{run.report['steps']} steps on {place}, {len(run.steady)} of them counted"
    return f"{counted}: {waits} per step{over}{staged}."


def _heading(text: str, rows: Sequence[object]) -> str:
    return text if rows else f"{text}: nothing"


def _seen(line: Line) -> str:
    count = f"{per_step(line.waits)} waits" if line.waits else f"{per_step(line.staged)} staged"
    via = f", via {short(line.via)}" if line.via else ""
    return f"{_place(line.where.file, line.where.row)}  {count}: {line.operator}{via}"


def _place(path: str, row: int) -> str:
    return f"{os.path.relpath(path)}:{row}" if row else path


def _complain(text: str) -> int:
    print(f"torchperf-lint verify: error: {text}", file=sys.stderr)
    return FAILED
