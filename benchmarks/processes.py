"""Runs a command to its end and measures the CPU time and the memory of the whole process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import IO, TYPE_CHECKING, NamedTuple

from linter import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

UNIT_OF_MEMORY = 1e6 if sys.platform == "darwin" else 1e3  # of `ru_maxrss`, in a megabyte


class Cost(NamedTuple):
    """The cost of a process and the children it waited for: user plus system seconds, and peak memory in MB."""

    cpu: float
    peak: float
    status: int


def installed_environment() -> dict[str, str]:
    """The linter's environment, in which Python may write byte code, as for installed modules."""
    return {name: value for name, value in environment().items() if name != "PYTHONDONTWRITEBYTECODE"}


def cost_of(
    command: Sequence[str],
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
    limit: int | None = None,
) -> Cost:
    """Run the command in the folder; its output goes to `output`, or is dropped.

    `env` is the linter's by default; a process is killed by a signal after `limit` seconds of CPU time.
    """
    child = subprocess.Popen(
        command if limit is None else ["sh", "-c", f'ulimit -t {limit}; exec "$@"', "sh", *command],
        cwd=folder,
        env=installed_environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if output is None else output,
        stderr=None if output is None else subprocess.STDOUT,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / UNIT_OF_MEMORY, child.returncode)


def median_cpu(command: Sequence[str], runs: int, folder: Path | None = None, fine: Sequence[int] = (0,)) -> float:
    """The median CPU seconds of the command; exits if its exit status is not `fine`."""
    costs = [cost_of(command, folder) for _ in range(runs)]
    for cost in costs:
        if cost.status not in fine:
            raise SystemExit(f"exit status {cost.status}: {' '.join(command)}")
    return statistics.median(cost.cpu for cost in costs)


def medians(measured: Sequence[Callable[[], float]], runs: int) -> list[float]:
    """The median of each, measured in turns, so that other load affects all alike."""
    for each in measured:
        each()
    turns = [[each() for each in measured] for _ in range(runs)]
    return [statistics.median(times) for times in zip(*turns, strict=True)]
