"""Who judges many files: this process, or any executor, by one function from files to results."""

from __future__ import annotations

import contextlib
import gc
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import Disk, failed, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from concurrent.futures import Executor, Future

    from torchperf_lint.engine.gather import Snapshot
    from torchperf_lint.engine.jobs import Job, Result, Surroundings
    from torchperf_lint.model.project.facts import Facts

WORTH_A_POOL = 5_000_000
"""Bytes of source below which starting worker processes takes longer than it saves."""

_FILES_PER_CALL = 16
_SECONDS_BETWEEN_LOOKS = 2.0


PROCESSES, _DASK = "processes", "dask="


class BadExecutor(ValueError):
    """A text names no executor."""


class Unusable(Exception):
    """The executor that was asked for cannot do the work, or not go on with it; the text is one line."""


def checked_executor(text: str) -> str:
    """The name of an executor: `processes`, or `dask=` and the address of a scheduler. Raise BadExecutor otherwise."""
    scheme, separator, rest = text.removeprefix(_DASK).partition("://")
    if text != PROCESSES and not (text.startswith(_DASK) and scheme and separator and rest):
        raise BadExecutor(f"`{text}` is no executor: `{PROCESSES}` is, and `{_DASK}tcp://HOST:PORT`")
    return text


def workers_of(executor: str, jobs: int | None) -> Workers:
    """Who is meant by the name of an executor; `jobs` is Processes'. Raise Unusable where that is not installed."""
    if executor == PROCESSES:
        return Processes(jobs)
    from torchperf_lint.engine.cluster import Cluster

    return Cluster(executor.removeprefix(_DASK))


class Workers(Protocol):
    """Who does the work of a run: the facts of files, and the jobs."""

    def facts_of_all(self, contents: Iterator[bytes]) -> Iterable[Facts]:
        """The facts of files' contents, in their order."""

    def judged(self, work: Sequence[Job], snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
        """The results in the order of the work; `snapshot` gives the project around the files."""

    def close(self) -> None:
        """Let go of all that was needed for it."""


class Processes:
    """This process, or where there is enough to do, processes that it starts."""

    def __init__(self, jobs: int | None) -> None:
        """`jobs` is the number of processes; None: as many as there are cores to use."""
        self._jobs = jobs or _cores()

    def facts_of_all(self, contents: Iterator[bytes]) -> Iterable[Facts]:
        """As Workers says."""
        from torchperf_lint.model.project.facts import facts_of

        return map(facts_of, contents)

    def judged(self, work: Sequence[Job], snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
        """As Workers says."""
        if self._jobs > 1 and _is_worth_a_pool(work):
            return _in_pool(work, self._jobs, snapshot)
        around = Disk(snapshot)
        return (run_job(job, around) for job in work)

    def close(self) -> None:
        """Nothing is left of processes once their results have been taken."""


def drive(
    executor: Executor,
    function: Callable[..., list[Result]],
    work: Sequence[Job],
    *shared: Any,
    ended: type[Exception],
    look: Callable[[], None] | None = None,
) -> Generator[Result, None, None]:
    """Have an executor call `function` with some of the jobs at a time, and with all of `shared`; give the results.

    They come in the order of the work, in whatever order they are there. `ended` is what the executor raises where a
    process has ended at work, which costs a line for each file of the call. `look` is called every few seconds while
    nothing comes, and may raise what ends the run. What is called for no longer is cancelled.
    """
    calls: deque[tuple[Sequence[Job], Future[list[Result]]]] = deque()
    for first in range(0, len(work), _FILES_PER_CALL):
        jobs = work[first : first + _FILES_PER_CALL]
        calls.append((jobs, _submitted(executor, ended, function, jobs, *shared)))
    return _collected(calls, ended, look)


def _submitted(
    executor: Executor, ended: type[Exception], function: Callable[..., list[Result]], *given: Any
) -> Future[list[Result]]:
    from concurrent.futures import Future

    try:
        return executor.submit(function, *given)
    except ended as error:  # a call before this one has broken it
        broken: Future[list[Result]] = Future()
        broken.set_exception(error)
        return broken


def _collected(
    calls: deque[tuple[Sequence[Job], Future[list[Result]]]],
    ended: type[Exception],
    look: Callable[[], None] | None,
) -> Generator[Result, None, None]:
    from concurrent.futures import wait

    try:
        while calls:
            jobs, future = calls[0]
            try:
                while look is not None and not wait([future], _SECONDS_BETWEEN_LOOKS).done:
                    look()
                yield from future.result()
            except ended:
                for job in jobs:
                    yield failed(Failure(job.path, None, None, "not checked: a worker process was ended"))
            calls.popleft()
    finally:
        for _, future in calls:
            future.cancel()


# -- processes of this machine -----------------------------------------------------------------------------------------


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_worth_a_pool(work: Sequence[Job]) -> bool:
    size = 0
    for job in work:
        with contextlib.suppress(OSError):
            size += os.stat(job.path).st_size
        if size >= WORTH_A_POOL:
            return True
    return False


_around: Surroundings | None = None
"""What a worker process knows besides its jobs."""


def _begin(snapshot: Snapshot) -> None:
    """Make a worker process ready."""
    global _around
    _end_with_parent()
    _tune_collector()
    _around = Disk(lambda: snapshot)


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


def _work(jobs: Sequence[Job]) -> list[Result]:
    assert _around is not None
    return [run_job(job, _around) for job in jobs]


def _in_pool(work: Sequence[Job], workers: int, snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
    """The results from worker processes that read the files by themselves."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    # Not fork: it is unsafe beside threads, and no longer the default anywhere from Python 3.14.
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (snapshot(),))
    try:
        with _without_interrupts():  # the processes start here, and take this over
            results = drive(pool, _work, work, ended=BrokenProcessPool)
        yield from results
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
