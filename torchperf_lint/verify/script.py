"""`torchperf-lint verify --script`: runs a user's program unchanged and compares its waits with the findings."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.config import BadConfig
from torchperf_lint.engine import registry
from torchperf_lint.verify import account_text
from torchperf_lint.verify.account import account_of
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.preview import Preview, before_a_run, fixes_of, preview
from torchperf_lint.verify.runs import run_program
from torchperf_lint.verify.sources import Linter, Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.account import Account
    from torchperf_lint.verify.mirror import Earlier
    from torchperf_lint.verify.preview import Copy
    from torchperf_lint.verify.runs import Line, Run

CLEAN, FOUND, FAILED = 0, 1, 2


class Request(NamedTuple):
    """The request: the script and its arguments, how to run it, and the form of the report."""

    script: Path
    arguments: Sequence[str]
    device: str
    steps: int | None = None
    include: Sequence[str] = ()
    python: str | None = None
    jobs: int | None = None
    as_json: bool = False
    page: Path | None = None
    fix_preview: bool = False
    unsafe: bool = False


class Joined(NamedTuple):
    """Matching findings and waiting lines, and those without a match."""

    confirmed: list[tuple[Diagnostic, list[Line]]]
    not_seen: list[Diagnostic]
    not_found: list[Line]


def verify(request: Request) -> int:
    """Run the script, lint every loaded file that is not excluded, print both; return the exit status."""
    script = request.script
    if not script.is_file():
        return _complain(f"{script}: {'this is no file' if script.exists() else 'there is no such file'}")
    if not os.access(script, os.R_OK):
        return _complain(f"{script}: it cannot be read")
    if request.page is not None:
        from torchperf_lint.verify import report

        try:
            report.prepare(request.page)
        except OSError as error:
            return _complain(f"{request.page}: the report cannot be written: {error.strerror}")
    request = request._replace(script=script.resolve())
    earlier = before_a_run(str(request.script)) if request.fix_preview else None
    run = run_program(
        request.script,
        request.device,
        request.arguments,
        include=request.include,
        python=request.python,
        steps=request.steps,
        rows=True,
        live=True,
        output=sys.stderr if request.as_json else None,
    )
    sys.stdout.flush()
    if run.status != OK:
        _complain(_what_happened(run, request.script))
        if not run.events:
            return FAILED
    try:
        account = _judged(request, run, earlier)
    except BadConfig as error:
        return _complain(str(error.failure))
    for failure in account.failures:
        print(failure, file=sys.stderr)
    _tell(account, request)
    if run.status != OK or account.failures:
        return FAILED
    return FOUND if account.lines or account.not_seen else CLEAN


def _judged(request: Request, run: Run, earlier: Earlier | None) -> Account:
    sources = Sources.of(run, str(request.script))
    linter = Linter(sources, request.jobs)
    found, failures = linter.findings()
    joined = join(found, (line for loop in run.loops() for line in loop.lines))
    account = account_of(run, joined, failures, sources)
    return account._replace(preview=_preview(request, run, linter, earlier)) if request.fix_preview else account


def _preview(request: Request, run: Run, linter: Linter, earlier: Earlier | None) -> Preview:
    if run.status != OK:
        return Preview({}, obstacle="the program does not come to its end")

    def start(copy: Copy) -> Run:
        return run_program(
            copy.script,
            request.device,
            request.arguments,
            instead=copy.paths,
            python=request.python,
            steps=request.steps,
            folder=copy.folder,
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
            time_limit=None,
        )

    fixes = fixes_of(linter, unsafe=request.unsafe)
    try:
        return preview(linter.sources, fixes, start, earlier=earlier)
    except OSError as error:
        return Preview(fixes, obstacle=f"the program cannot be copied: {error}")


def _tell(account: Account, request: Request) -> None:
    """Print the account, and write its page."""
    if request.as_json:
        from torchperf_lint.verify import account_json

        print(account_json.render(account))
    else:
        print(account_text.render(account), end="")
    if request.page is not None:
        from torchperf_lint.verify import report
        from torchperf_lint.verify.page.account import page

        path = report.write_page(page(account, report.today()), request.page)
        print(f"wrote {path}", file=sys.stderr if request.as_json else sys.stdout)


def _what_happened(run: Run, script: Path) -> str:
    """Why and where the program failed."""
    error = str(run.report["error"])
    if error.startswith("--include"):  # the program has not started
        return error
    row = run.report.get("failed_at")
    at = f", at {os.path.relpath(row[0])}:{row[1]}" if row else ""
    # A NotSimulated error explains itself.
    return f"{os.path.relpath(script)}: {error if run.status == NOT_SIMULATED else f'{run.status}: {error}'}{at}"


def join(found: Iterable[Diagnostic], lines: Iterable[Line]) -> Joined:
    """Match findings with waiting lines.

    They match if the line is part of the reported statement or, for rules that report a creation that costs at its
    uses, if it is one of the places in the finding's evidence.
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


def _complain(text: str) -> int:
    print(f"torchperf-lint verify: error: {text}", file=sys.stderr)
    return FAILED
