"""Runs programs in forks of one process that has already imported torch, which dominates the time of short runs.

Otherwise a run is the same: a process of its own, with the path and environment that it would have had.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, cast

from torchperf_lint.verify import apart
from torchperf_lint.verify.runs import PROGRAMS_ALIKE, TIME_LIMIT, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.verify.runs import Launch

IMPORTED_BY_MANY = {
    "sim": ("torch._dynamo", "torch.utils.data", "torchperf_lint.verify.simulated.registration"),
    "cuda": ("torch._dynamo", "torch.utils.data", "torchperf_lint.verify.counters"),
}
"""Modules that programs on a device import anyway, and that do not affect them."""

_ASK_NVML = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Makes imports ask another library whether there is a GPU: forks cannot use CUDA once it was asked itself."""


def _longest() -> float:
    return TIME_LIMIT


@contextlib.contextmanager
def warm_launch(device: str, time_limit: Callable[[], float] = _longest) -> Iterator[Launch]:
    """Start a process that forks for every run on `sim` or `cuda`, one at a time; yield the `launch` of such runs.

    `time_limit` gives the seconds that the next run may take; one that takes longer is killed, and raises
    TimeoutExpired.
    """
    command = apart.command(__name__, device)
    environment = {**os.environ, **PROGRAMS_ALIKE, **_ASK_NVML}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        requests, answers = process.stdin, process.stdout
        assert answers is not None

        def launch(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Finished:
            with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as place:
                arguments = list(command[len(apart.command(_CHILD)) :])
                seconds = time_limit()
                wanted = {
                    "arguments": arguments,
                    "folder": str(folder),
                    "environment": dict(environment),
                    "place": place,
                    "seconds": seconds,
                }
                requests.write(json.dumps(wanted) + "\n")
                requests.flush()
                answer = answers.readline().strip()
                if not answer:
                    raise RuntimeError("the process that forks for every run has died")
                if answer == _LATE:
                    raise subprocess.TimeoutExpired(command, seconds)
                texts = [(Path(place) / name).read_text(encoding="utf-8", errors="replace") for name in _STREAMS]
            return Finished(int(answer), *texts)

        yield launch  # on leaving, its standard input is closed, and it ends


@contextlib.contextmanager
def warm_launches(device: str, time_limit: Callable[[], float] = _longest) -> Iterator[Callable[[], Launch | None]]:
    """Yield a function that gives each thread its own `launch`, created on first use; None where forks are unavailable.

    The arguments are those of `warm_launch`. Only Linux safely forks a process with this many libraries loaded.
    """
    own = threading.local()
    with contextlib.ExitStack() as processes:

        def mine() -> Launch | None:
            if sys.platform != "linux":
                return None
            if not hasattr(own, "launch"):
                own.launch = processes.enter_context(warm_launch(device, time_limit))
            return cast("Launch", own.launch)

        yield mine


_CHILD = "torchperf_lint.verify.child"
_STREAMS = "stdout", "stderr"
_LATE = "late"
"""The answer where a run took too long and was ended."""


def main() -> int:
    """Fork for every run requested on standard input, and reply with its exit status."""
    from importlib import import_module

    from torchperf_lint.verify import child

    for module in IMPORTED_BY_MANY[sys.argv[1]]:
        import_module(module)
    gc.collect()
    gc.freeze()  # objects from before the program are not its own, so the collector need not scan them
    requests, answers = os.fdopen(os.dup(0)), os.dup(1)
    for line in iter(requests.readline, ""):
        wanted = json.loads(line)
        seconds = wanted.pop("seconds")
        forked = os.fork()
        if not forked:
            os.close(answers)
            return child.main(_prepare(**wanted))
        status = _ended(forked, seconds)
        os.write(answers, f"{_LATE if status is None else os.waitstatus_to_exitcode(status)}\n".encode())
    return 0


def _ended(process: int, seconds: float) -> int | None:
    """The status of a child that ends within this time; one that does not is killed, and has none."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    _, status = os.waitpid(process, 0)
    timer.cancel()
    timer.join()  # no fork beside a thread
    return None if late.is_set() else status


def _prepare(arguments: list[str], folder: str, environment: dict[str, str], place: str) -> list[str]:
    """Make the fork equal to a separate process; return the arguments for `child`."""
    inherited = os.environ.get("PYTHONPATH")
    own = [] if inherited is None else inherited.split(os.pathsep)
    wanted = environment.get("PYTHONPATH", "").split(os.pathsep)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [each for each in wanted if each and each not in own]
    for descriptor, file in enumerate((os.devnull, *(os.path.join(place, name) for name in _STREAMS))):
        opened = os.open(file, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    return arguments
