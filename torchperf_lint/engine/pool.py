"""Processes of this machine that judge files: how they begin, how they end, and what becomes of one that is lost."""

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
    from collections.abc import Callable, Generator, Iterator, MutableMapping, Sequence
    from concurrent.futures import Future

    from torchperf_lint.engine.jobs import Job, Result, Workspace
    from torchperf_lint.engine.project_snapshot import Snapshot

_around: Workspace | None = None
"""What a worker process knows besides its jobs."""


def _begin(snapshot: Snapshot) -> None:
    """Make a worker process ready."""
    global _around
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as it was when it started, unless it takes another one's place
    _end_with_parent()
    executors.tune_collector()
    _around = FileSystem(lambda: snapshot)


def _end_with_parent() -> None:
    """Have the worker end when its parent is gone: one that was killed can tell it nothing any more."""
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


def in_pool(work: Sequence[Job], workers: int, snapshot: Callable[[], Snapshot]) -> Generator[Result, None, None]:
    """The results from worker processes that read the files by themselves."""
    with _without_current_folder():
        pool = _Pool(min(workers, -(-len(work) // executors.FILES_PER_CALL)), snapshot())
        try:
            yield from executors.drive(pool, _work, work, ended=BrokenProcessPool)
        finally:
            pool.shutdown(cancel_futures=True)


class _Pool(ThreadPoolExecutor):
    """A thread for each worker process, and each process alone in an executor of Python's.

    So one that ends takes no other along: its executor gives way to a new one. And none is started in an executor that
    is at work already, for which it waits for ever if a process ends just then.
    """

    def __init__(self, workers: int, snapshot: Snapshot) -> None:
        super().__init__(workers)
        self._snapshot = snapshot
        self._idle: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
        with _without_interrupts():  # the processes start here, and take this over
            for _ in range(workers):
                self._idle.put(self._start())

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: it is unsafe beside threads, and no longer the default anywhere from Python 3.14.
        process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (self._snapshot,))
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
            with contextlib.suppress(OSError):  # the next call of a broken one fails in the same way as this
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
    """Leave ctrl-C to the parent, which then lets every worker end by itself."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread is interrupted, nor may it say so
        return
    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, was)


@contextlib.contextmanager
def _without_current_folder() -> Iterator[None]:
    """Have new processes look for no module in the current folder: what lies there is linted, and must not be run.

    Until this process's path has come to them, Python would look there first.
    """
    holder: MutableMapping[str, Any] = os.environ
    name: str = "PYTHONSAFEPATH"
    value: Any = "1"
    if sys.version_info < (3, 11):  # which does not know it: processes are started with these options
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
