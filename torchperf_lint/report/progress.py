"""A progress bar, shown on terminals only and after a delay."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

PATIENCE = 2.0
"""Seconds of a run before the bar appears."""


@contextlib.contextmanager
def progress_bar(stream: TextIO) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that takes the number of files done and their total, or None where the stream is no terminal."""
    if not stream.isatty():
        yield None
        return
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        update: Callable[[int, int], None] | None = None

        def advance(done: int, total: int) -> None:
            nonlocal update
            if update is None and time.monotonic() - begun > PATIENCE:
                update = stack.enter_context(_bar(stream))
            if update is not None:
                update(done, total)

        yield advance


@contextlib.contextmanager
def _bar(stream: TextIO) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=stream), transient=True) as progress:
        task = progress.add_task("linting", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
