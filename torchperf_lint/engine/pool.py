"""Worker processes on this machine: their start, their end, and recovery from a lost one."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import util
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine import executors
from torchperf_lint.engine.jobs import FileSystem, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, MutableMapping, Sequence
    from concurrent.futures import Future

    from torchperf_lint.engine.jobs import Job, Result, Workspace
    from torchperf_lint.engine.project_snapshot import Snapshot

_around: Workspace | None = None
"""A worker process's workspace."""


def _begin(snapshot: Snapshot, contents: Mapping[str, bytes] | None = None, workers: int = 1) -> None:
    """Initialize one of so many worker processes."""
    global _around
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited at start, but not by a replacement process
    _end_with_parent()
    executors.tune_collector()
    _around = FileSystem(lambda: snapshot, contents, workers)


def _end_with_parent() -> None:
    """End the worker when its parent is gone; a killed parent cannot tell it."""
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


def in_pool(
    work: Sequence[Job],
    workers: int,
    snapshot: Callable[[], Snapshot],
    contents: Mapping[str, bytes] | None = None,
) -> Generator[Result, None, None]:
    """The results from worker processes, which read the files themselves, but for those with other `contents`."""
    with _without_current_folder():
        pool = _Pool(min(workers, -(-len(work) // executors.FILES_PER_CALL)), snapshot(), contents)
        try:
            yield from executors.drive(pool, _work, work, ended=BrokenProcessPool)
        finally:
            pool.shutdown(cancel_futures=True)


class _Pool(ThreadPoolExecutor):
    """A thread per worker process, each with a single-process executor of Python's.

    A process that dies then affects no other: only its executor is replaced. No process is added to an executor that is
    running, because that hangs for ever if a process dies at that moment.
    """

    def __init__(self, workers: int, snapshot: Snapshot, contents: Mapping[str, bytes] | None = None) -> None:
        super().__init__(workers)
        self._given = snapshot, contents, workers
        self._idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
        with _without_interrupts():  # processes start here and inherit the mask
            for _ in range(workers):
                self._idle.put(self._start())

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: it is unsafe beside threads, and no longer the default anywhere from Python 3.14.
        process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, self._given)
        process.submit(os.getpid)
        return process

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        return super().submit(self._do, function, *given, **named)

    def _do(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        process = self._idle.get()
        try:
            return process.submit(function, *given, **named).result()
        except BrokenProcessPool:
            process.shutdown()
            with contextlib.suppress(OSError):  # the next call on a broken executor fails in the same way
                process = self._start()
            raise
        finally:
            self._idle.put(process)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        while not self._idle.empty():
            self._idle.get().shutdown(wait)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Leave ctrl-C to the parent, which then ends every worker in order."""
    if threading.current_thread() is not threading.main_thread():
        yield  # other threads are never interrupted, and cannot change signals
        return
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Keep the current folder off new processes' module path: what is there is linted and must not be run.

    Until this process's path has reached them, Python would look there first.
    """
    holder: MutableMapping[str, Any] = os.environ
    name: str = "PYTHONSAFEPATH"
    value: Any = "1"
    if sys.version_info < (3, 11):  # older versions lack the variable: processes start with these options
        holder, name = vars(util), "_args_from_interpreter_flags"
        value = functools.partial(list, ["-I", *holder[name]()])
    was = holder.get(name)
    holder[name] = value
    try:
        yield
    finally:
        if was is None:
            del holder[name]
        else:
            holder[name] = was
