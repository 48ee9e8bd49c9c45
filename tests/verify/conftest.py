"""One process that has imported torch, for all runs of a test session that are no matter of how a process starts."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.verify.runs import Launch


@pytest.fixture(scope="session")
def launch() -> Iterator[Launch | None]:
    """`run_program`'s way to run a program in a fork of that process; None where forks are not to be had."""
    from torchperf_lint.verify.warm import warm_launches

    turn = threading.Lock()
    with warm_launches("sim") as launches:
        fork = launches()

        def one_by_one(*given):
            with turn:
                return fork(*given)

        yield fork and one_by_one


@pytest.fixture(scope="module")
def warm_runs(launch: Launch | None) -> Iterator[None]:
    """Let the programs that the tests of a module have run, run in forks of that process."""
    if launch is None:
        yield
        return
    from torchperf_lint.verify import gpu, pairs, runs

    @contextlib.contextmanager
    def launches(*given: object) -> Iterator[Callable[[], Launch]]:
        yield lambda: launch

    def forked(*given, time_limit):
        return launch(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "warm_launches", launches)
        patch.setattr(gpu, "warm_launches", launches)
        patch.setattr(runs, "_launch", forked)
        yield
