"""The job for one file and its result, computed from plain data in any process."""

from __future__ import annotations

import enum
import functools
import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from torchperf_lint.engine import registry
from torchperf_lint.engine.files import unreadable
from torchperf_lint.engine.findings import Confidence, Failure
from torchperf_lint.engine.memory import room_for_trees
from torchperf_lint.engine.mishaps import told
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.results import Fingerprint
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.scan import rules_worth_running
from torchperf_lint.engine.store import settled, status_of
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.engine.trial import offered
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Applied
    from torchperf_lint.engine.fixer import FixReport, Withdrawn
    from torchperf_lint.engine.line_length import LineLengths
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.engine.requirements import Requirements
    from torchperf_lint.engine.store import Status
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program


class Action(enum.Enum):
    """What to do with a file.

    CHECK it, JUDGE it without trying fixes, tell which fixes of a report to OFFER, FIX it on disk, or TRY to and write
    nothing.
    """

    CHECK = "check"
    JUDGE = "judge"
    OFFER = "offer"
    FIX = "fix"
    TRY = "try"


class Job(NamedTuple):
    """One file and what to do with it: plain data that crosses processes, with rules named by their codes.

    `own_versions`: versions that `target` leaves open, and the length of lines, are looked up in the project's own
    files. `spared`: findings, by code and start, that FIX and TRY neither fix nor report. `keeps`: the result has a
    fingerprint, to be stored. `chosen`: keys of the only fixes to apply, as for `fix_source`. `comments` and `held` are
    as for `check_source`. `given`: the bytes to take in place of the file's, `told`: a report on them, for OFFER.
    """

    path: str
    codes: tuple[str, ...]
    target: Target
    hints: Hints
    action: Action = Action.CHECK
    unsafe: bool = False
    report_unused: bool = True
    own_versions: bool = True
    least: Confidence = Confidence.LIKELY
    spared: frozenset[tuple[str, int]] = frozenset()
    keeps: bool = False
    chosen: frozenset[tuple[str, int]] | None = None
    comments: Comments = Comments.ALL
    held: frozenset[str] = frozenset()
    given: bytes | None = None
    told: FileReport = FileReport()


class Result(NamedTuple):
    """The outcome for one file.

    `before` and `data` are its bytes before and after: positions in `report` refer to `data`. Both are empty where
    there is nothing to report, to save transfer between processes.
    """

    path: str
    report: FileReport
    before: bytes = b""
    data: bytes = b""
    applied: tuple[Applied, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    unfixed: FileReport = FileReport()  # the report if the fixed file cannot be written
    fingerprint: Fingerprint | None = None  # what the report depends on; None if unknown or not requested


class Workspace(Protocol):
    """A job's only access to files, in whatever process it runs."""

    def read(self, path: str) -> tuple[bytes, Status | None]:
        """The bytes of a job's file on disk, with its status if that will show a later change; may raise OSError."""

    def program(self) -> Program:
        """The project around the files; the same object each time."""

    def complete(self, target: Target, path: str) -> Target:
        """`target` completed by the versions that the project around a file states."""

    def line_length(self, path: str) -> int:
        """The length of lines that the project around a file states, in columns."""


class FileSystem:
    """The workspace of the machine that has the files; the project has other `contents` in place of some, by path.

    So many `processes` share the machine's memory.
    """

    def __init__(
        self, snapshot: Callable[[], Snapshot], contents: Mapping[str, bytes] | None = None, processes: int = 1
    ) -> None:
        self._project = functools.cache(lambda: snapshot().changing(room=room_for_trees(processes)))
        self.contents = contents or {}

    def program(self) -> Program:
        """Implements Workspace."""
        return self._project().program(self.contents)

    def read(self, path: str) -> tuple[bytes, Status | None]:
        """Implements Workspace."""
        with open(path, "rb") as file:
            status = status_of(os.fstat(file.fileno()))
            return file.read(), settled(status)

    def complete(self, target: Target, path: str) -> Target:
        """Implements Workspace."""
        return requirements().complete(target, path)

    def line_length(self, path: str) -> int:
        """Implements Workspace."""
        return line_lengths().of(path)


def run_job(job: Job, around: Workspace) -> Result:
    """Run one job in any process; errors become a failure of its file."""
    try:
        try:
            data, status = around.read(job.path) if job.given is None else (job.given, None)
        except OSError as error:
            return failed(unreadable(job.path, error))
        return run_on(job, data, around.program, status, around.complete, around.line_length)
    except Exception as error:
        return broken(job, error)


def broken(job: Job, error: Exception) -> Result:
    """The result of a job that failed by an internal error."""
    return failed(Failure(job.path, None, None, told({"": error})))


def run_on(
    job: Job,
    data: bytes,
    program: Callable[[], Program] | None = None,
    status: Status | None = None,
    complete: Callable[[Target, str], Target] | None = None,
    line_length: Callable[[str], int] | None = None,
) -> Result:
    """Run a job on given bytes. Nothing is written: the fixed text is in the result.

    `status` is the file's status when it was read, if that will show a later change. `complete` is as for `completed`,
    and `line_length` tells the length of lines for a path; without it, the project's files are read here.
    """
    if is_notebook(job.path):
        from torchperf_lint.engine.notebooks import run_on_notebook

        return run_on_notebook(job, data, program, complete, line_length)
    return run_on_python(job, data, program, status, complete, line_length)


def run_on_python(
    job: Job,
    data: bytes,
    program: Callable[[], Program] | None = None,
    status: Status | None = None,
    complete: Callable[[Target, str], Target] | None = None,
    line_length: Callable[[str], int] | None = None,
) -> Result:
    """The same for Python, whatever the path says."""
    rules = _rules(job.codes)
    target = completed(job.target, job.path, data, rules, complete) if job.own_versions else job.target
    length = functools.partial(standard_or_own_length, job, line_length)
    if job.action is Action.CHECK:
        return _checked(job, data, rules, target, program, status, length)
    if job.action is Action.JUDGE:
        return Result(job.path, _judged(job, data, rules, target, program), data, data)
    if job.action is Action.OFFER:
        return Result(job.path, _offered(job, job.told, data, rules, target, length(), in_project=True), data, data)
    from torchperf_lint.engine.fixer import fix_source

    subject = (job.path, data, rules, target, job.hints, job.unsafe)
    fixed = None
    try:
        fixed = fix_source(
            *subject,
            program=program,
            comments=job.comments,
            report_unused=job.report_unused,
            least=job.least,
            held=job.held,
            line_length=length(),
            spared=job.spared,
            chosen=job.chosen,
        )
    finally:
        if program is not None and (fixed is None or fixed.applied or fixed.withdrawn):
            program().close(job.path)  # trial contents must not affect other files
    return result_of(job.path, data, fixed)


def result_of(path: str, before: bytes, fixed: FixReport) -> Result:
    """The result for a file that had these bytes before it was fixed."""
    if fixed.data == before and not fixed.report.diagnostics:
        return Result(path, fixed.report)
    unfixed = fixed.unfixed if fixed.data != before else FileReport()
    return Result(path, fixed.report, before, fixed.data, fixed.applied, fixed.withdrawn, unfixed)


def _checked(
    job: Job,
    data: bytes,
    rules: Sequence[Rule],
    target: Target,
    program: Callable[[], Program] | None,
    status: Status | None,
    line_length: Callable[[], int],
) -> Result:
    asked: list[Program] = []

    def noted() -> Program:
        assert program is not None
        if not asked:
            asked.append(program())
            asked[0].recorder.begin(keeps=job.keeps)
        return asked[0]

    around = None if program is None else noted
    report = _judged(job, data, rules, target, around)
    length = line_length() if any(each.fix for each in report.diagnostics) else None
    if length is not None:
        report = _offered(job, report, data, rules, target, length, in_project=around is not None)
    because = [step for found in report.diagnostics for step in found.because]
    dependencies = asked[0].dependencies_of(job.path, because) if asked and job.keeps else None
    fingerprint = None
    if job.keeps and (dependencies is not None or not asked):
        # Versions that the job does not give were looked up in the project's files.
        stated = name_of_target(target) if target is not job.target else None
        fingerprint = Fingerprint(digest_of(data), status, stated, length if job.own_versions else None, dependencies)
    kept = data if report.diagnostics else b""
    return Result(job.path, report, kept, kept, fingerprint=fingerprint)


def _judged(
    job: Job, data: bytes, rules: Sequence[Rule], target: Target, program: Callable[[], Program] | None
) -> FileReport:
    return check_source(
        *(job.path, data, rules, target, job.hints),
        program=program,
        comments=job.comments,
        report_unused=job.report_unused,
        least=job.least,
        held=job.held,
    )


def _offered(
    job: Job, report: FileReport, data: bytes, rules: Sequence[Rule], target: Target, length: int, *, in_project: bool
) -> FileReport:
    return offered(
        *(report, job.path, data, rules, target, job.hints),
        in_project=in_project,
        comments=job.comments,
        report_unused=job.report_unused,
        least=job.least,
        line_length=length,
    )


def completed(
    target: Target,
    path: str,
    data: bytes,
    rules: Sequence[Rule],
    complete: Callable[[Target, str], Target] | None = None,
) -> Target:
    """`target` completed by the versions that the project around the file states, if one of the rules may query them.

    `complete` knows those versions; without it, the files are read here.
    """
    versioned = [rule for rule in rules if rule.versions]
    if not rules_worth_running(data, versioned, accelerated=True, metrics=True):
        return target
    return (requirements().complete if complete is None else complete)(target, path)


def name_of_target(target: Target) -> str:
    """A short name of the versions; equal targets have equal names."""
    return digest_of(repr(target).encode())[:16]


def failed(failure: Failure) -> Result:
    """The result of a file with nothing but a failure."""
    return Result(failure.path, FileReport((), failure))


@functools.cache
def requirements() -> Requirements:
    """The versions that projects' own files state, each file read once; `cache_clear` forgets them."""
    from torchperf_lint.engine.requirements import Requirements

    return Requirements()


@functools.cache
def line_lengths() -> LineLengths:
    """The lengths of lines that projects' own files state, each file read once; `cache_clear` forgets them."""
    from torchperf_lint.engine.line_length import LineLengths

    return LineLengths()


def standard_or_own_length(job: Job, line_length: Callable[[str], int] | None = None) -> int:
    """The length of lines for the job's file; `line_length` is as for `run_on`."""
    if job.own_versions:
        return (line_lengths().of if line_length is None else line_length)(job.path)
    from torchperf_lint.engine.layout import STANDARD_LENGTH

    return STANDARD_LENGTH


@functools.cache
def _rules(codes: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in registry.all_rules() if rule.code in codes)
