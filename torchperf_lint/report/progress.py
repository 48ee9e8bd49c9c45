"""Progress of a run, shown on terminals only and after a delay: what is done, how many files, how fast."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from rich.progress import Progress, Task
    from rich.text import Text

PATIENCE = 2.0
"""Seconds of a run before the bar appears."""

READING, CHECKING, ENDING = "reading the project", "checking", "finishing"
"""What is done before the first file is judged, until the last one is, and then: fixes are written, reports kept."""


@contextlib.contextmanager
def progress_bar(stream: TextIO, *, colour: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that takes the number of files done and their total, or None where the stream is no terminal."""
    if not stream.isatty():
        yield None
        return
    shown = _Shown(stream, colour)
    # A thread of its own: the first file may take longer than one is patient.
    timer = threading.Timer(PATIENCE, shown.begin)
    timer.daemon = True
    timer.start()
    try:
        yield shown.advance
    finally:
        timer.cancel()
        shown.end()


class _Shown:
    """The state of a run, and the bar that shows it once it has begun; methods may be called from any thread."""

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream, self._colour, self._begun = stream, colour, time.monotonic()
        self._lock = threading.Lock()
        self._done, self._total = 0, 0
        self._bar: Progress | None = None
        self._ended = False

    def begin(self) -> None:
        """Show the bar, unless the run has ended."""
        bar = _bar(self._stream, self._colour, self._begun)
        with self._lock:
            if self._ended:
                return
            self._bar = bar
            bar.add_task(READING, total=None)
            bar.start()
            self._update()

    def advance(self, done: int, total: int) -> None:
        """Note what is done."""
        with self._lock:
            self._done, self._total = done, total
            self._update()

    def end(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()

    def _update(self) -> None:
        if self._bar is not None and self._total:
            doing = CHECKING if self._done < self._total else ENDING
            task = self._bar.tasks[0].id
            self._bar.update(task, completed=self._done, total=self._total, description=doing)


def _bar(stream: TextIO, colour: bool, begun: float) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
    from rich.text import Text

    class Files(ProgressColumn):
        """Files done, their number and their rate, and the seconds since the run has begun."""

        def render(self, task: Task) -> Text:
            elapsed = time.monotonic() - begun
            if task.total is None:
                return Text(f"{elapsed:.0f} s")
            rate = f"{task.completed / elapsed:.1f} files/s"
            return Text(f"{task.completed:.0f}/{task.total:.0f} files, {rate}, {elapsed:.0f} s")

    console = Console(file=stream, no_color=None if colour else True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), Files())
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)
