"""Host costs besides waiting: processes, threads in loader workers, and bytes that host operators allocate."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
import time
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_FRESH = "aten::lift_fresh"
"""The last operator of `torch.tensor(...)`: it returns its input, which was just made from Python data."""


class Started:
    """Counts the processes started through `multiprocessing`: loader workers, in each pass."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self) -> None:
        """Start counting."""
        start, own = BaseProcess.start, os.getpid()

        @functools.wraps(start)
        def counted(process: BaseProcess, *arguments: Any) -> None:
            if os.getpid() == own:
                self.count += 1
            start(process, *arguments)

        BaseProcess.start = counted  # type: ignore[method-assign, assignment]


class WorkerThreads:
    """Counts the threads that libraries started in processes forked by this one, when these end.

    Python's own threads, such as a loader's pin-memory thread, do not count. Processes that are not forked are not
    seen, nor any on a system without `/proc`.
    """

    def __init__(self) -> None:
        self._count = multiprocessing.get_context("fork").Value("q", 0)

    def watch(self) -> None:
        """Start counting."""
        run, count = BaseProcess.run, self._count

        @functools.wraps(run)
        def counted(process: BaseProcess) -> None:
            run(process)
            with count.get_lock():
                count.value += _foreign_threads()

        BaseProcess.run = counted  # type: ignore[method-assign, assignment]

    @property
    def count(self) -> int:
        """The number so far."""
        return int(self._count.value)


def _foreign_threads() -> int:
    """The threads that Python did not start; the minimum of several counts, because threads may be ending."""
    if not os.path.isdir(_THREADS):
        return 0
    counts = []
    for _ in range(_LOOKS):
        counts.append(max(len(os.listdir(_THREADS)) - threading.active_count(), 0))
        if counts[-1] == 0:
            break
        time.sleep(0.01)
    return min(counts)


_THREADS = "/proc/self/task"
_LOOKS = 5


class HostBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums the sizes of tensors that host operators create or write, in this thread; views are free."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and look at what it gives."""
        given = func(*args, **(kwargs or {}))
        schema = func._schema
        is_view = any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
        if schema.name == _FRESH or not is_view:
            tensors = [each for each in tree_leaves(given) if isinstance(each, torch.Tensor)]
            self.count += sum(each.nbytes for each in tensors if each.device.type == "cpu")
        return given
