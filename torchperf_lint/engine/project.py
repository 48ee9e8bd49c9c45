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
from torchperf_lint.engine.layout import folder_left_out, layout_of, root_of
from torchperf_lint.engine.results import Ground, Results
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.scan import rules_worth_running
from torchperf_lint.engine.store import settled, status_of
from torchperf_lint.syntax.identity import digest_of, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.fixer import Applied, Withdrawn
    from torchperf_lint.engine.gather import Snapshot
    from torchperf_lint.engine.requirements import Requirements
    from torchperf_lint.engine.store import Status
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.project.program import Program

WORTH_A_POOL = 5_000_000
"""Bytes of source below which starting worker processes takes longer than it saves."""

_FILES_PER_CALL = 16


class Action(enum.Enum):
    """What is done with a file: CHECK it, FIX it on disk, or TRY the fixes and write nothing."""

    CHECK = "check"
    FIX = "fix"
    TRY = "try"


class Job(NamedTuple):
    """One file and what to do with it: plain data, for it crosses processes; rules go by their codes.

    `own_versions`: the project's own files are asked for versions that `target` leaves open.
    """

    path: str
    codes: tuple[str, ...]
    target: Target
    hints: Hints
    action: Action = Action.CHECK
    unsafe: bool = False
    report_unused: bool = True
    own_versions: bool = True


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
    unfixed: FileReport = FileReport()  # what is to be said if the fixed file cannot be written
    ground: Ground | None = None  # what the report rests on; None if that is not known, or not asked for


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
    cache: str | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    own_versions: bool = True,
) -> Iterator[Result]:
    """Yield the result of every file under `paths`, sorted by path, the same for any number of `jobs`.

    The files are judged as parts of the project that they belong to, as the run finds it: with FIX, files are
    written only once all are judged. `rules_for` and `reports_unused` (whether TPL001 is on) are asked per file, in
    this process. `exclude` and `root` are `files.discover`'s, `cache` is `gather`'s. `jobs` None means as many
    processes as there are cores to use; `progress` is called with the files judged and their total. What cannot be
    read is a result with a failure. `own_versions` is Job's.
    """
    _requirements.cache_clear()
    found = discover(paths, exclude, root)
    work = [
        Job(path, codes, target, hints, action, unsafe, reports_unused(path), own_versions)
        for path in found.files
        for codes in [tuple(rule.code for rule in rules_for(path))]
    ]
    snapshot = functools.cache(functools.partial(_gathered, found.files, hints, cache))
    if cache is not None and action is Action.CHECK and work:
        results = _with_kept(work, cache, snapshot, jobs)
    else:
        results = _judged(work, jobs, snapshot)
    if progress is not None:
        results = _counted(results, len(work), progress)
    if action is Action.FIX:
        results = _written(results)
    failures = sorted(found.failures, key=lambda failure: failure.path, reverse=True)
    with calm_collector(), contextlib.closing(results) as stream:
        for result in stream:
            while failures and failures[-1].path < result.path:
                yield _failed(failures.pop())
            yield result
    yield from map(_failed, reversed(failures))


def run_job(job: Job, program: Callable[[], Program] | None = None) -> Result:
    """Do one job, in whatever process; never raises for anything that the file is or holds."""
    try:
        with open(job.path, "rb") as file:
            status = status_of(os.fstat(file.fileno()))
            data = file.read()
    except OSError as error:
        return _failed(unreadable(job.path, error))
    return run_on(job, data, program, settled(status))


def run_in_project(job: Job, data: bytes, cache: str | None) -> Result:
    """Do a job on bytes that stand in for the file at its path, in the project around it; `cache` is `gather`'s."""
    return run_on(job, data, functools.cache(lambda: _gathered([job.path], job.hints, cache).program()))


def run_on(job: Job, data: bytes, program: Callable[[], Program] | None = None, status: Status | None = None) -> Result:
    """Do a job on bytes that are at hand. Nothing is written: what a fix makes of the file is in the result.

    `status` is what the file's was when they were read, if that will show a later change.
    """
    rules = _rules(job.codes)
    target = completed(job.target, job.path, data, rules) if job.own_versions else job.target
    if job.action is Action.CHECK:
        return _checked(job, data, rules, target, program, status)
    from torchperf_lint.engine.fixer import fix_source

    subject = (job.path, data, rules, target, job.hints)
    fixed = fix_source(*subject, job.unsafe, program=program, report_unused=job.report_unused)
    if program is not None and (fixed.applied or fixed.withdrawn):
        program().close(job.path)  # what was tried in it must not count for other files
    if fixed.data == data and not fixed.report.diagnostics:
        return Result(job.path, fixed.report)
    unfixed = fixed.unfixed if fixed.data != data else FileReport()
    return Result(job.path, fixed.report, data, fixed.data, fixed.applied, fixed.withdrawn, unfixed)


def _checked(
    job: Job,
    data: bytes,
    rules: Sequence[Rule],
    target: Target,
    program: Callable[[], Program] | None,
    status: Status | None,
) -> Result:
    asked: list[Program] = []

    def noted() -> Program:
        assert program is not None
        around = program()
        around.trail.begin()
        asked.append(around)
        return around

    report = check_source(
        *(job.path, data, rules, target, job.hints),
        program=None if program is None else noted,
        report_unused=job.report_unused,
    )
    basis = asked[0].trail.basis() if asked else None
    ground = None
    if basis is not None or not asked:
        # The versions that were asked for are those that are not the job's.
        ground = Ground(digest_of(data), status, _named(target) if target is not job.target else None, basis)
    kept = data if report.diagnostics else b""
    return Result(job.path, report, kept, kept, ground=ground)


def completed(target: Target, path: str, data: bytes, rules: Sequence[Rule]) -> Target:
    """`target` with what the project around the file states of its versions, if one of the rules may ask for them."""
    versioned = [rule for rule in rules if rule.versions]
    asking = rules_worth_running(data, versioned, accelerated=True, metrics=True)
    return _requirements().complete(target, path) if asking else target


def _gathered(paths: Sequence[str], hints: Hints, cache: str | None) -> Snapshot:
    from torchperf_lint.engine.gather import gather

    return gather(paths, hints, cache)


def _judged(work: Sequence[Job], jobs: int | None, snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
    return _in_pool(work, jobs or _cores(), snapshot) if _wants_pool(work, jobs) else _in_turn(work, snapshot)


def _in_turn(work: Sequence[Job], snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
    program = functools.cache(lambda: snapshot().program())
    for job in work:
        yield run_job(job, program)


# -- what an earlier run has said --------------------------------------------------------------------------------------


def _with_kept(
    work: Sequence[Job], cache: str, snapshot: Callable[[], Snapshot], jobs: int | None
) -> Generator[Result, None, None]:
    """The same results; those of earlier runs that still hold are not worked out again."""
    keys = keys_of(job.path for job in work)
    first = work[0]
    settings = repr((folder_left_out(keys), first.target, first.hints, first.own_versions))
    kept = Results(root_of(keys.values()), cache, settings)
    looked_at: list[Snapshot] = []

    def noted() -> Snapshot:
        if not looked_at:
            looked_at.append(snapshot())
        return looked_at[0]

    told = _told(work, keys, kept)
    asking = [path for path in told if not kept.is_alone(keys[path])]
    if asking and not kept.unchanged(layout_of(keys)):
        kept.outlive(noted())
        told = {path: result for path, result in told.items() if kept.holds(keys[path])}
    with contextlib.closing(_judged([job for job in work if job.path not in told], jobs, noted)) as judged:
        for job in work:
            result = told.pop(job.path, None)
            if result is None:
                result = next(judged)
                kept.add(keys[job.path], job.path, _asked(job), result.report, result.ground)
            yield result
    kept.save(looked_at[0] if looked_at else None)


def _told(work: Sequence[Job], keys: dict[str, str], kept: Results) -> dict[str, Result]:
    """What was said of those files that are as they were, as far as they themselves can show; by path."""
    found: dict[str, Result] = {}
    stated: dict[tuple[str, bool], str] = {}  # the versions now: the same for all files of a folder
    for job in work if kept.load() else ():
        key = keys[job.path]
        told = kept.told(key, job.path, _asked(job))
        if told is None:
            continue
        if told.stated is not None:
            place = os.path.dirname(key), os.path.isabs(job.path)
            if place not in stated:
                stated[place] = _named(_requirements().complete(job.target, job.path))
            if told.stated != stated[place]:
                continue
        found[job.path] = Result(job.path, told.report, told.data, told.data)
    return found


def _asked(job: Job) -> str:
    """What names a job, besides what is the same for all jobs of a run."""
    return _name_of_job(job.codes, job.report_unused)


@functools.cache
def _name_of_job(codes: tuple[str, ...], report_unused: bool) -> str:
    return digest_of(repr((codes, report_unused)).encode())[:16]


def _named(target: Target) -> str:
    return digest_of(repr(target).encode())[:16]


def _counted(
    results: Generator[Result, None, None], total: int, progress: Callable[[int, int], None]
) -> Generator[Result, None, None]:
    with contextlib.closing(results) as stream:
        for done, result in enumerate(stream, 1):
            yield result
            progress(done, total)


def _written(results: Generator[Result, None, None]) -> Generator[Result, None, None]:
    """The results with their files replaced, once all are there: until then every file is as the run found it.

    What is kept until then are the files that change or have findings; of the others, results hold no bytes.
    """
    with contextlib.closing(results) as stream:
        done = list(stream)
    for result in done:
        if result.data == result.before:
            yield result
            continue
        try:
            write_atomically(result.path, result.data)
        except OSError as error:
            failure = Failure(result.path, None, None, f"cannot be written: {error.strerror or error}")
            yield Result(result.path, result.unfixed._replace(failure=failure), result.before, result.before)
        else:
            yield result._replace(unfixed=FileReport())


def _failed(failure: Failure) -> Result:
    return Result(failure.path, FileReport((), failure))


@functools.cache
def _requirements() -> Requirements:
    from torchperf_lint.engine.requirements import Requirements

    return Requirements()


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


_program: Callable[[], Program] | None = None
"""The project, in a worker process."""


def _begin(snapshot: Snapshot) -> None:
    """Make a worker process ready."""
    global _program
    _end_with_parent()
    _tune_collector()
    _program = functools.cache(snapshot.program)


def _end_with_parent() -> None:
    """Have the worker end when its parent is gone: one that was killed can tell it nothing any more."""
    import multiprocessing
    import threading
    from multiprocessing.connection import wait

    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(job: Job) -> Result:
    return run_job(job, _program)


def _in_pool(work: Sequence[Job], workers: int, snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
    """The results in the order of the work; a dead worker costs a line for each file that was not reached."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Not fork: it is unsafe beside threads, and no longer the default anywhere from Python 3.14.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (snapshot(),))
    done = 0
    try:
        with _without_interrupts():  # the processes start here, and take this over
            results = pool.map(_work, work, chunksize=_FILES_PER_CALL)
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
    """Leave ctrl-C to the parent, which then lets every worker end by itself."""
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
def calm_collector() -> Iterator[None]:
    """Have the garbage collector come seldom, as long as many files are judged."""
    thresholds = gc.get_threshold()
    _tune_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
