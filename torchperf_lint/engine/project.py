"""Many files: each found once, checked or fixed here or in worker processes, reported in the order of their paths."""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover, unreadable, write_atomically
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.runner import FileReport, check_source

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.fixer import Applied, Withdrawn
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target

WORTH_A_POOL = 5_000_000
"""Bytes of source below which starting worker processes takes longer than it saves."""

_FILES_PER_CALL = 16


class Action(enum.Enum):
    """What is done with a file: CHECK it, FIX it on disk, or TRY the fixes and write nothing."""

    CHECK = "check"
    FIX = "fix"
    TRY = "try"


class Job(NamedTuple):
    """One file and what to do with it: plain data, for it crosses processes; rules go by their codes."""

    path: str
    codes: tuple[str, ...]
    target: Target
    hints: Hints
    action: Action = Action.CHECK
    unsafe: bool = False
    report_unused: bool = True


class Result(NamedTuple):
    """What has come of one file.

    `before` and `data` are its bytes before and after: positions in `report` refer to `data`. To spare the
    way between processes both are empty where there is nothing to tell.
    """

    path: str
    report: FileReport
    before: bytes = b""
    data: bytes = b""
    applied: tuple[Applied, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()


def check_paths(
    paths: Sequence[str],
    rules_for: Callable[[str], Sequence[Rule]],
    target: Target,
    hints: Hints,
    *,
    reports_unused: Callable[[str], bool] = lambda path: True,
    action: Action = Action.CHECK,
    unsafe: bool = False,
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    root: str = ".",
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Result]:
    """Yield the result of every file under `paths`, sorted by path, the same for any number of `jobs`.

    `rules_for` and `reports_unused` (whether TPL001 is on) are asked per file, in this process. `exclude` and
    `root` are `files.discover`'s. `jobs` None means as many processes as there are cores to use; `progress`
    is called with the files done and their total. What cannot be read is a result with a failure.
    """
    found = discover(paths, exclude, root)
    work = [
        Job(path, tuple(rule.code for rule in rules_for(path)), target, hints, action, unsafe, reports_unused(path))
        for path in found.files
    ]
    results = _in_pool(work, jobs or _cores()) if _wants_pool(work, jobs) else (run_job(job) for job in work)
    failures = sorted(found.failures, key=lambda failure: failure.path, reverse=True)
    done = 0
    with _calm_collector(), contextlib.closing(results) as stream:
        for result in stream:
            while failures and failures[-1].path < result.path:
                yield _failed(failures.pop())
            yield result
            done += 1
            if progress is not None:
                progress(done, len(work))
    yield from map(_failed, reversed(failures))


def run_job(job: Job) -> Result:
    """Do one job, in whatever process; never raises for anything that the file is or holds."""
    try:
        with open(job.path, "rb") as file:
            data = file.read()
    except OSError as error:
        return _failed(unreadable(job.path, error))
    return run_on(job, data, write_atomically)


def run_on(job: Job, data: bytes, write: Callable[[str, bytes], None]) -> Result:
    """Do a job on bytes that are at hand; `write` is given the path and the bytes of a fixed file."""
    rules = _rules(job.codes)
    subject = (job.path, data, rules, job.target, job.hints)
    if job.action is Action.CHECK:
        report = check_source(*subject, report_unused=job.report_unused)
        return Result(job.path, report, data, data) if report.diagnostics else Result(job.path, report)
    fixed = fix_source(*subject, job.unsafe, report_unused=job.report_unused)
    if job.action is Action.FIX and fixed.data != data:
        try:
            write(job.path, fixed.data)
        except OSError as error:
            report = check_source(*subject, report_unused=job.report_unused)
            reason = f"cannot be written: {error.strerror or error}"
            return Result(job.path, report._replace(failure=Failure(job.path, None, None, reason)), data, data)
    if fixed.data == data and not fixed.report.diagnostics:
        return Result(job.path, fixed.report)
    return Result(job.path, fixed.report, data, fixed.data, fixed.applied, fixed.withdrawn)


def _failed(failure: Failure) -> Result:
    return Result(failure.path, FileReport((), failure))


@functools.cache
def _rules(codes: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in registry.all_rules() if rule.code in codes)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _wants_pool(work: Sequence[Job], jobs: int | None) -> bool:
    if (jobs or _cores()) == 1:
        return False
    size = 0
    for job in work:
        with contextlib.suppress(OSError):
            size += os.stat(job.path).st_size
        if size >= WORTH_A_POOL:
            return True
    return False


def _in_pool(work: Sequence[Job], workers: int) -> Generator[Result, None, None]:
    """The results in the order of the work; a dead worker costs a line for each file that was not reached."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Not fork: it is unsafe beside threads, and no longer the default anywhere from Python 3.14.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _tune_collector)
    done = 0
    try:
        with _without_interrupts():  # the processes start here, and take this over
            results = pool.map(run_job, work, chunksize=_FILES_PER_CALL)
        for result in results:
            yield result
            done += 1
    except BrokenProcessPool:
        for job in work[done:]:
            yield _failed(Failure(job.path, None, None, "not checked: a worker process was ended"))
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Leave ctrl-C to the parent, which then lets every worker finish the file that it may be writing."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread is interrupted, nor may it say so
        return
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)


def _tune_collector() -> None:
    """Trees die by reference counting, and frequent searches for cycles in them cost a tenth of the run."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@contextlib.contextmanager
def _calm_collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    _tune_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
