"""Checks files on the workers of a dask cluster: file contents go out by digest, symbols and results come back.

This process reads every file of the project. It sends each content once, in packs that workers then fetch from each
other. A pack is the result of a task, so dask can make it again if the last worker that held it has died. Code on a
worker gets a `Project` as its workspace and reads no project file from the worker's own disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.executors import Unusable, calm_collector, drive
from torchperf_lint.engine.jobs import FileSystem, line_lengths, requirements, run_job
from torchperf_lint.engine.store import settled, status_of
from torchperf_lint.engine.tool_fingerprint import portable_stamp
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from torchperf_lint.engine.jobs import Job, Result
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.engine.store import Status
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program
    from torchperf_lint.model.project.file_symbols import FileSymbols

CONNECTING = 10.0
"""Seconds within which the scheduler must be reached and must have a worker."""

PATIENCE = 30.0
"""Seconds that a run continues without any worker; a worker that died may be restarted."""

_PACK = 4_000_000
_LEAVING = 3.0


# -- on a worker -------------------------------------------------------------------------------------------------------


class Project:
    """A job's workspace on a worker that does not have the files: plain data from the client.

    The object caches what a worker derives from it for later jobs. That cache ends with the run and is never sent.
    """

    def __init__(
        self,
        stamp: str,
        snapshot: Snapshot,
        files: dict[str, tuple[str, Status | None]],
        targets: dict[str, Target],
        lengths: dict[str, int],
        contents: Mapping[str, bytes] | None = None,
    ) -> None:
        """`files` maps keys to content digests and statuses.

        `targets` maps jobs' paths to completed targets, `lengths` to the lengths of lines. Files with other `contents`
        have these in the project, by path.
        """
        self._given = stamp, snapshot, files, targets, lengths, contents
        self.stamp = stamp
        self._snapshot = snapshot
        self._files = files
        self._targets = targets
        self._lengths = lengths
        self._changed = contents or {}
        self._keys = {path: key for key, path in snapshot.layout.shown.items()}
        self._contents: Mapping[str, bytes] = {}
        self._program: Program | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Project, self._given

    def unpack(self, packs: Sequence[dict[str, bytes]]) -> None:
        """Store the contents that were sent with it, once."""
        self._contents = self._contents or {digest: data for pack in packs for digest, data in pack.items()}

    def read(self, path: str) -> tuple[bytes, Status | None]:
        """Implements Workspace."""
        key = self._keys[path]
        return self._content(key), self._files[key][1]

    def program(self) -> Program:
        """Implements Workspace."""
        if self._program is None:
            self._program = self._snapshot.changing(self._content).program(self._changed)
        return self._program

    def complete(self, target: Target, path: str) -> Target:
        """Implements Workspace."""
        return self._targets[path]

    def line_length(self, path: str) -> int:
        """Implements Workspace."""
        return self._lengths[path]

    def _content(self, key: str) -> bytes:
        if key not in self._files:
            raise FileNotFoundError(key)  # the client could not read it either
        return self._contents[self._files[key][0]]


_at_work = threading.Lock()
"""Serializes jobs: a worker may have several threads, and a program answers one query at a time."""


def judge(jobs: Sequence[Job], project: Project, *packs: dict[str, bytes]) -> list[Result]:
    """Run jobs on a worker; raise Unusable if the worker's program differs from the client's."""
    if project.stamp != portable_stamp():
        raise Unusable(f"a worker has {portable_stamp()}; this is {project.stamp}")
    with _at_work, calm_collector():
        project.unpack(packs)
        return [run_job(job, project) for job in jobs]


def facts_in(pack: dict[str, bytes]) -> list[FileSymbols]:
    """The symbols of every content in a pack, each named by its digest."""
    from torchperf_lint.model.project.file_symbols import symbols_of

    return [symbols_of(data) for data in pack.values()]


def held(data: Any) -> Any:
    """Returns its argument. As a task, its result stays on workers and can be made again."""
    return data


# -- here --------------------------------------------------------------------------------------------------------------


class Cluster:
    """The workers of a dask cluster; it connects only once there is work."""

    def __init__(self, address: str) -> None:
        """`address` is the scheduler's, such as `tcp://host:8786`; raise Unusable where dask is not installed."""
        from importlib.util import find_spec

        if find_spec("distributed") is None:
            raise Unusable("dask is not installed: pip install 'torchperf-lint[dask]'")
        self._address = address
        self._client: Any = None
        self._quiet = contextlib.ExitStack()
        self._last_seen = 0.0
        self._packs: list[Any] = []  # dask futures
        self._sent: set[str] = set()
        self._pack: dict[str, bytes] = {}  # not sent yet
        self._size = 0

    def close(self) -> None:
        """Implements Workers; unfinished work is dropped."""
        client, self._client = self._client, None
        with self._quiet:
            if client is not None:
                with contextlib.suppress(Exception):  # the scheduler may be gone
                    client.close(timeout=_LEAVING)

    def facts_of_all(self, contents: Iterator[bytes]) -> list[FileSymbols]:
        """The symbols of contents, in their order; a single pack is processed here, because sending it takes longer."""
        digests = [self._take(data) for data in contents]
        if not self._packs:
            known = facts_in({digest: self._pack[digest] for digest in digests})
        else:
            self._send()
            with self._one_line():
                asked = [self._client.get_executor(pure=False).submit(facts_in, pack) for pack in self._packs]
                known = [each for future in asked for each in self._awaited(future)]
        by_digest = {each.digest: each for each in known}
        return [by_digest[digest] for digest in digests]

    def judged(
        self, work: Sequence[Job], snapshot: Callable[[], Snapshot], contents: Mapping[str, bytes] | None = None
    ) -> Generator[Result, None, None]:
        """Implements Workers; raise Unusable where the cluster cannot continue."""
        if not work:
            return
        self._connect()
        seen = snapshot()
        files = self._files(seen)
        keys = {path: key for key, path in seen.layout.shown.items()}
        sent = {job.path for job in work if keys[job.path] in files}
        plain = seen._replace(statuses={})
        project = Project(portable_stamp(), plain, files, _targets(work), _lengths(work), contents)
        here = FileSystem(lambda: seen, contents)
        with self._one_line():
            from distributed import KilledWorker

            shared = self._client.submit(held, project, pure=False)
            jobs = [job for job in work if job.path in sent]
            executor = self._client.get_executor(pure=False)
            remote = drive(executor, judge, jobs, shared, *self._packs, ended=KilledWorker, look=self._look)
            with contextlib.closing(remote):
                for job in work:  # unreadable and oversized files were not sent
                    yield next(remote) if job.path in sent else run_job(job, here)

    def _files(self, snapshot: Snapshot) -> dict[str, tuple[str, Status | None]]:
        """The project's current files by key; contents that were not sent yet are sent now."""
        from torchperf_lint.engine.project_snapshot import read_file

        found = {}
        for key in snapshot.facts:
            with contextlib.suppress(OSError):
                status = status_of(os.stat(key))  # before reading, so that a change during the read is noticed later
                found[key] = self._take(read_file(key)), settled(status)
        self._send()
        return found

    def _take(self, data: bytes) -> str:
        """Queue a content for sending unless it was sent before; returns its digest."""
        digest = digest_of(data)
        if digest not in self._sent:
            self._sent.add(digest)
            self._pack[digest] = data
            self._size += len(data)
            if self._size >= _PACK:
                self._send()
        return digest

    def _send(self) -> None:
        if self._pack:
            self._connect()
            with self._one_line():
                self._packs.append(self._client.submit(held, self._pack, pure=False))
            self._pack, self._size = {}, 0

    # -- the connection --------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect to a cluster whose workers run the same program; raise Unusable otherwise."""
        if self._client is not None:
            return
        self._quiet.enter_context(_without_logs())
        with self._one_line():
            import asyncio

            import dask
            from distributed import Client

            # One file may exceed what dask considers large for a task.
            self._quiet.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}))
            try:
                self._client = self._answer(lambda: Client(self._address, timeout=CONNECTING, set_as_default=False))
            except (OSError, ValueError) as error:
                raise Unusable(f"the dask scheduler {self._address} cannot be reached: {_line(error)}") from None
            try:
                self._client.wait_for_workers(1, timeout=CONNECTING)
            except asyncio.TimeoutError:
                raise Unusable(f"the dask scheduler {self._address} has no workers") from None
            for worker, stamp in self._answer(lambda: self._client.run(portable_stamp, on_error="return")).items():
                if isinstance(stamp, str) and stamp != portable_stamp():
                    raise Unusable(f"the worker {worker} has {stamp}; this is {portable_stamp()}")
                if not isinstance(stamp, (str, OSError)):  # a lost worker says nothing about the others
                    raise Unusable(f"the worker {worker} cannot run torchperf-lint: {_line(stamp)}")
        self._last_seen = time.monotonic()

    def _answer(self, asking: Callable[[], Any]) -> Any:
        """The cluster's reply; raise Unusable on a timeout, because the other end may never reply."""
        from concurrent import futures

        answer: futures.Future[Any] = futures.Future()

        def ask() -> None:
            try:
                answer.set_result(asking())
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            return answer.result(2 * CONNECTING)
        except futures.TimeoutError:
            if answer.done():
                raise
            raise Unusable(f"the dask cluster {self._address} does not answer") from None

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        """Turn any dask error into a one-line Unusable."""
        from concurrent.futures import CancelledError

        try:
            yield
        except Unusable:
            raise
        except CancelledError:
            raise Unusable(f"the dask scheduler {self._address} is gone") from None
        except Exception as error:
            raise Unusable(f"the dask cluster {self._address} has failed: {_line(error)}") from error

    def _awaited(self, future: Future[list[FileSymbols]]) -> list[FileSymbols]:
        from concurrent.futures import wait

        while not wait([future], 1).done:
            self._look()
        return future.result()

    def _look(self) -> None:
        """Raise Unusable if there has been no worker for PATIENCE seconds."""
        if self._client.status == "running":
            with contextlib.suppress(OSError):
                if self._client.nthreads():
                    self._last_seen = time.monotonic()
        if time.monotonic() - self._last_seen > PATIENCE:
            raise Unusable(f"the dask cluster {self._address} has no workers any more")


def _targets(work: Sequence[Job]) -> dict[str, Target]:
    return {job.path: requirements().complete(job.target, job.path) for job in work if job.own_versions}


def _lengths(work: Sequence[Job]) -> dict[str, int]:
    return {job.path: line_lengths().of(job.path) for job in work if job.own_versions}


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """Silence logging: dask logs at length what we report in one line."""
    import logging

    was = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(was)
