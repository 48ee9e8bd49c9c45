"""How many processes a program starts: the workers of its loaders, anew with every pass that needs them."""

from __future__ import annotations

import functools
import os
from multiprocessing.process import BaseProcess
from typing import Any


class Started:
    """Counts the processes that this one starts by way of `multiprocessing`."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self) -> None:
        """Count from now on."""
        start, own = BaseProcess.start, os.getpid()

        @functools.wraps(start)
        def counted(process: BaseProcess, *arguments: Any) -> None:
            if os.getpid() == own:
                self.count += 1
            start(process, *arguments)

        BaseProcess.start = counted  # type: ignore[method-assign, assignment]
