"""Progress of a run, in one line of a terminal and after a delay: what is done, how many files, how fast."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from rich.progress import Progress, Task
    from rich.text import Text

PATIENCE = 2.0
"""Seconds of a run before the bar appears."""

READING, CHECKING, ENDING = "reading the project", "checking", "finishing"
"""What is done before the first file is judged, until the last one is, and then: fixes are written, reports kept."""

_BESIDE = 8
"""Columns of the spinner, the shortest bar and the blanks between them."""


@contextlib.contextmanager
def progress_bar(stream: TextIO, *, colour: bool = True) -> Iterator[Shown | None]:
    """Yield what is to be told of files that are done, or None where the stream is no terminal."""
    if not stream.isatty():
        yield None
        return
    shown = Shown(stream, colour)
    # A thread of its own: the first file may take longer than one is patient.
    timer = threading.Timer(PATIENCE, shown.begin)
    timer.daemon = True
    timer.start()
    try:
        yield shown
    finally:
        timer.cancel()
        shown.end()


class _State(NamedTuple):
    """How far a run is; `others` are files that this phase did not do, `since` is when it began.

    `last` is when a file was done last.
    """

    doing: str
    done: int
    total: int
    others: int
    since: float
    last: float


class Shown:
    """The state of a run, and the bar that shows it once it has begun; methods may be called from any thread.

    A phase of the run begins with its first file, and lasts until another one does: a rate is that of its phase.
    """

    def __init__(self, stream: TextIO, colour: bool) -> None:
        self._stream, self._colour, self._begun = stream, colour, time.monotonic()
        self._lock = threading.Lock()
        # Replaced as a whole: rich calls `told` under a lock of its own, and must not wait there for this one.
        self._state = _State(READING, 0, 0, 0, self._begun, self._begun)
        self._bar: Progress | None = None
        self._ended = False

    def begin(self) -> None:
        """Show the bar, unless the run has ended."""
        bar = _bar(self._stream, self._colour, self)
        with self._lock:
            if self._ended:
                return
            self._bar = bar
            bar.add_task(READING, total=None)
            bar.start()
            self._update()

    def read(self, done: int, total: int) -> None:
        """Note how many files of the project have been read."""
        self._note(READING, done, total)

    def advance(self, done: int, total: int) -> None:
        """Note how many files have been judged."""
        self._note(CHECKING, done, total)

    def told(self, room: int) -> str:
        """Files done, their number and their rate, and the seconds since the run has begun: what fits the room."""
        now, state = time.monotonic(), self._state
        elapsed = f"{now - self._begun:.0f} s"
        if not state.total:
            return elapsed
        rate = (state.done - state.others) / max(now - state.since, 0.001)
        parts = [f"{state.done}/{state.total} files", f"{rate:.1f} files/s", elapsed]
        while len(parts) > 1 and len(", ".join(parts)) > room:
            parts.pop()
        return ", ".join(parts)

    def _note(self, doing: str, done: int, total: int) -> None:
        with self._lock:
            _, _, _, others, since, last = self._state
            if doing != self._state.doing:
                others, since = done - 1, last
            self._state = _State(doing, done, total, others, since, time.monotonic())
            self._update()

    def end(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()

    def _update(self) -> None:
        doing, done, total, *_ = self._state
        if self._bar is not None and total:
            told = ENDING if doing == CHECKING and done == total else doing
            self._bar.update(self._bar.tasks[0].id, completed=done, total=total, description=told)


def _bar(stream: TextIO, colour: bool, shown: Shown) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    console = Console(file=stream, no_color=None if colour else True)

    class Files(ProgressColumn):
        """What is told of the files."""

        def render(self, task: Task) -> Text:
            return Text(shown.told(console.width - len(task.description) - _BESIDE))

    files = Files(Column(no_wrap=True))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), files)
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)
