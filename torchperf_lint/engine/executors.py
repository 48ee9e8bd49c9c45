"""Executors that check many files: this process, or any executor, with one function from files to results."""

from __future__ import annotations

import contextlib
import gc
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import FileSystem, failed, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from torchperf_lint.engine.jobs import Job, Result
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.model.project.file_symbols import FileSymbols

WORTH_A_POOL = 5_000_000
"""Bytes of source below which starting worker processes costs more time than it saves."""

FILES_PER_CALL = 16
"""How many files are sent to a worker at a time."""

_SECONDS_BETWEEN_LOOKS = 2.0
_MOST_ENDED = 8  # files that end their process when run alone; after this many, nothing is retried

PROCESSES, _DASK = "processes", "dask="


class BadExecutor(ValueError):
    """The text names no executor."""


class Unusable(Exception):
    """The requested executor cannot start or continue; the text is one line."""


def checked_executor(text: str) -> str:
    """Validate an executor's name: `processes`, or `dask=` and a scheduler's address. Raise BadExecutor otherwise."""
    scheme, separator, rest = text.removeprefix(_DASK).partition("://")
    if text != PROCESSES and not (text.startswith(_DASK) and scheme and separator and rest):
        raise BadExecutor(f"`{text}` is no executor: `{PROCESSES}` is, and `{_DASK}tcp://HOST:PORT`")
    return text


def workers_of(executor: str, jobs: int | None) -> Workers:
    """The executor of this name; `jobs` is for Processes. Raise Unusable where it is not installed."""
    if executor == PROCESSES:
        return Processes(jobs)
    from torchperf_lint.engine.cluster import Cluster

    return Cluster(executor.removeprefix(_DASK))


class Workers(Protocol):
    """Does the work of a run: extracts file symbols and runs jobs."""

    def facts_of_all(self, contents: Iterator[bytes]) -> Iterable[FileSymbols]:
        """The symbols of file contents, in their order."""

    def judged(
        self, work: Sequence[Job], snapshot: Callable[[], Snapshot], contents: Mapping[str, bytes] | None = None
    ) -> Generator[Result, None, None]:
        """The results in the order of `work`.

        `snapshot` gives the project around the files, some of which have other `contents` in it, by path.
        """

    def close(self) -> None:
        """Release all resources."""


class Processes:
    """This process or, for enough work, processes that it starts."""

    def __init__(self, jobs: int | None) -> None:
        """`jobs` is the number of processes; None: as many as there are cores to use."""
        self._jobs = jobs or _cores()
        self._here: tuple[Callable[[], Snapshot], FileSystem] | None = None

    def facts_of_all(self, contents: Iterator[bytes]) -> Iterable[FileSymbols]:
        """Implements Workers."""
        from torchperf_lint.model.project.file_symbols import symbols_of

        return map(symbols_of, contents)

    def judged(
        self, work: Sequence[Job], snapshot: Callable[[], Snapshot], contents: Mapping[str, bytes] | None = None
    ) -> Generator[Result, None, None]:
        """Implements Workers."""
        if self._jobs > 1 and _is_worth_a_pool(work):
            from torchperf_lint.engine.pool import in_pool

            return in_pool(work, self._jobs, snapshot, contents)
        around = self._around(snapshot)
        around.contents = contents or {}
        return (run_job(job, around) for job in work)

    def _around(self, snapshot: Callable[[], Snapshot]) -> FileSystem:
        """The files here: what is known of a project is used again."""
        if self._here is None or self._here[0] is not snapshot:
            self._here = snapshot, FileSystem(snapshot)
        return self._here[1]

    def close(self) -> None:
        """Does nothing: no process is left once its results have been taken."""


class _Call:
    """Jobs that an executor runs together, and their outcome."""

    def __init__(self, jobs: Sequence[Job], *, suspected: bool = False) -> None:
        self.jobs = jobs
        self.suspected = suspected  # its process ended, or may have ended, because of it: it runs alone
        self.future: Future[list[Result]] | None = None


def drive(
    executor: Executor,
    function: Callable[..., list[Result]],
    work: Sequence[Job],
    *shared: Any,
    ended: type[Exception],
    look: Callable[[], None] | None = None,
) -> Generator[Result, None, None]:
    """Have an executor call `function` with some of the jobs at a time and with all of `shared`; yield the results.

    Results come in the order of the work. `ended` is what the executor's futures raise where a process has died. The
    jobs of such a call are run one by one; a job that ends a process again gets a one-line failure. `look` is called
    every few seconds of waiting, and may raise to end the run. Calls whose results are no longer needed are cancelled.
    """
    calls = deque(_Call(work[first : first + FILES_PER_CALL]) for first in range(0, len(work), FILES_PER_CALL))

    def submit(some: Iterable[_Call]) -> None:
        for call in some:
            call.future = call.future or executor.submit(function, call.jobs, *shared)

    submit(calls)
    return _collected(calls, submit, ended, look)


def _collected(
    calls: deque[_Call],
    submit: Callable[[Iterable[_Call]], None],
    ended: type[Exception],
    look: Callable[[], None] | None,
) -> Generator[Result, None, None]:
    patience = _MOST_ENDED
    try:
        while calls:
            call = calls[0]
            try:
                if call.future is None and patience == 0:
                    yield from map(_lost, call.jobs)
                else:
                    if call.future is None:
                        submit([call] if call.suspected else calls)
                    yield from _awaited(call, look).result()
                calls.popleft()
            except ended:
                calls.popleft()
                if call.suspected:
                    patience -= 1
                    yield from map(_lost, call.jobs)
                else:
                    _forget_ended(calls, ended, look)
                    calls.extendleft(_Call([job], suspected=True) for job in reversed(call.jobs))
    finally:
        for call in calls:
            if call.future is not None:
                call.future.cancel()


def _forget_ended(calls: Iterable[_Call], ended: type[Exception], look: Callable[[], None] | None) -> None:
    """Wait until all calls are done, and reset those that died together with another call, so that they run again."""
    for call in calls:
        if call.future is not None and isinstance(_awaited(call, look).exception(), ended):
            call.future = None


def _awaited(call: _Call, look: Callable[[], None] | None) -> Future[list[Result]]:
    from concurrent.futures import wait

    assert call.future is not None
    while not wait([call.future], None if look is None else _SECONDS_BETWEEN_LOOKS).done:
        if look is not None:
            look()
    return call.future


def _lost(job: Job) -> Result:
    return failed(Failure(job.path, None, None, "not checked: a worker process was ended"))


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


def tune_collector() -> None:
    """Collect garbage seldom: reference counting frees trees, and frequent collections cost a tenth of the run."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@contextlib.contextmanager
def calm_collector() -> Iterator[None]:
    """Collect garbage seldom while many files are checked."""
    thresholds = gc.get_threshold()
    tune_collector()
    try:
        yield
    finally:
        gc.freeze()  # what is young would be collected at once by the lower thresholds: all that the run knows
        gc.set_threshold(*thresholds)
        gc.unfreeze()
