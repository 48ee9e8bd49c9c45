"""What makes a dask worker of a test blind to the project that is linted; workers import it from here."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

from torchperf_lint.engine import tool_fingerprint
from torchperf_lint.engine.cluster import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.jobs import Job, Result

asked: list[str] = []
"""What this process asked of files that it may not see."""


class Blind(WorkerPlugin):
    """Have a worker live in a folder of its own, and find nothing of another one."""

    def __init__(self, hidden: str) -> None:
        self.hidden = hidden

    def setup(self, worker: object) -> None:
        os.chdir(tempfile.mkdtemp())

        def refuse(path: object) -> None:
            if isinstance(path, (str, bytes)) and os.path.abspath(os.fsdecode(path)).startswith(self.hidden):
                asked.append(os.fsdecode(path))
                raise PermissionError(13, "not for this machine", path)

        def refuse_event(event: str, given: tuple[object, ...]) -> None:
            if event in ("open", "os.listdir", "os.scandir"):
                refuse(given[0])

        sys.addaudithook(refuse_event)
        for name in ("stat", "lstat", "readlink"):  # of which the interpreter tells no audit
            setattr(os, name, _refusing(getattr(os, name), refuse))


def _refusing(real, refuse):  # type: ignore[no-untyped-def]
    def asking(path, *rest, **options):  # type: ignore[no-untyped-def]
        refuse(path)
        return real(path, *rest, **options)

    return asking


def sees(path: str) -> bool:
    """Whether this process can read or find a file; what it asked for that does not count."""
    seen = os.path.exists(path)
    try:
        with open(path, "rb"):
            seen = True
    except OSError:
        pass
    asked.clear()
    return seen


def slow_judge(*given: Any) -> list[Result]:
    """Judge, and take long enough for something to happen meanwhile."""
    time.sleep(0.05)
    return judge(*given)


def judge_or_end(jobs: Sequence[Job], *shared: Any) -> list[Result]:
    """Judge, but for a file that ends the process."""
    if any(job.path == "poison.py" for job in jobs):
        os._exit(1)
    return judge(jobs, *shared)


_own = tool_fingerprint.portable_stamp


def pretend(other: str | None) -> None:
    """Have this process say that it is another program; None: itself again."""
    tool_fingerprint.portable_stamp = _own if other is None else lambda: other
