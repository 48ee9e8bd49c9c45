"""The progress of a run: on a terminal, here a pseudo-terminal, and after a delay; nowhere else."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.measure import Measurement
from rich.progress_bar import ProgressBar

from linting import ROOT
from torchperf_lint.report import progress
from training_loop import LOOP

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal, and all that was written to it so far."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self._seen = b""
        self._grew = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # the other end is closed
                return
            with self._grew:
                self._seen += data
                self._grew.notify_all()

    @property
    def raw(self) -> str:
        return self._seen.decode(errors="replace")

    @property
    def shown(self) -> str:
        return ESCAPES.sub("", self.raw)

    def waits_for(self, text: str) -> None:
        with self._grew:
            assert self._grew.wait_for(lambda: text in self.shown, timeout=30), self.shown


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Terminal()
    yield made
    made.stream.close()


def test_it_says_what_is_done_how_many_files_and_how_fast(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.progress_bar(terminal.stream) as shown:
        assert shown is not None
        terminal.waits_for(progress.READING)  # though no file is done
        shown.read(7, 7)
        terminal.waits_for("7/7 files")
        terminal.waits_for("files/s")
        assert progress.CHECKING not in terminal.shown
        shown.advance(1, 3)
        terminal.waits_for("1/3 files")
        assert progress.CHECKING in terminal.shown
        assert progress.ENDING not in terminal.shown
        shown.advance(3, 3)
        terminal.waits_for(progress.ENDING)
    assert "\x1b[2K" in terminal.raw, "the bar is taken away"
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.raw)


def test_it_has_no_colour_where_none_is_wanted(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.progress_bar(terminal.stream, colour=False):
        terminal.waits_for(progress.READING)
    assert not re.search(r"\x1b\[(?:[0-9]+;)*[34][0-8](?:;[0-9]+)*m", terminal.raw)


def test_a_short_run_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 60.0)
    with progress.progress_bar(terminal.stream) as shown:
        assert shown is not None
        shown.advance(1, 1)
    waiting = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    for each in waiting:
        each.join(5)
        assert not each.is_alive(), "nothing is left to wait for"
    assert terminal.raw == ""


def test_the_rate_is_that_of_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = progress.Shown(io.StringIO(), colour=False)
    assert shown.told(80) == "0 s"
    now = 8.0
    shown.read(40, 40)
    assert shown.told(80) == "40/40 files, 5.0 files/s, 8 s"
    now = 9.0
    shown.advance(1, 20)
    now = 10.0
    shown.advance(4, 20)
    assert shown.told(80) == "4/20 files, 2.0 files/s, 10 s"
    shown.read(40, 40)  # kept reports come before the project is read
    now = 12.0
    shown.advance(6, 20)
    assert shown.told(80) == "6/20 files, 0.5 files/s, 12 s"


def test_what_is_told_fits_beside_the_spinner_and_the_shortest_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    shown = progress.Shown(io.StringIO(), colour=False)
    now = 8.0
    shown.read(1234, 5678)

    def line(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        stream = io.StringIO()
        bar = progress._bar(stream, False, shown)
        bar.add_task(progress.READING, completed=1234, total=5678)
        bar.console.print(bar.get_renderable(), end="")
        return stream.getvalue().rstrip("\n")

    console = Console(width=80)
    shortest = Measurement.get(console, console.options, ProgressBar()).minimum
    parts = ["1234/5678 files", "154.2 files/s", "8 s"]
    for count in (1, 2, 3):
        told = ", ".join(parts[:count])
        least = len(progress.READING) + progress._BESIDE + len(told)
        assert re.fullmatch(f". {progress.READING} .{{{shortest}}} {told}", line(least))


def test_what_is_told_does_not_wait_for_who_changes_it() -> None:
    """As rich draws under its own lock while the run takes the bar away."""
    shown = progress.Shown(io.StringIO(), colour=False)
    with shown._lock:
        told: list[str] = []
        thread = threading.Thread(target=lambda: told.append(shown.told(80)), daemon=True)
        thread.start()
        thread.join(10)
        assert told == ["0 s"]


@pytest.mark.parametrize(("columns", "seen"), [("60", "files/s"), ("40", "1234/5678 files")])
def test_it_is_one_line_of_a_narrow_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: str, seen: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    with progress.progress_bar(terminal.stream) as shown:
        assert shown is not None
        shown.read(1234, 5678)
        terminal.waits_for(seen)
        shown.advance(1234, 5678)
        terminal.waits_for(progress.CHECKING)
        assert "\n" not in terminal.shown


RUN = """\
import sys
from torchperf_lint import cli
from torchperf_lint.engine import project
from torchperf_lint.report import progress
progress.PATIENCE = 0.0
counted = project._counted
def slow(results, total, advance):
    def then(done, total):
        advance(done, total)
        time.sleep(1.0)
    return counted(results, total, then)
import time
project._counted = slow
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command line, which is patient no longer, and takes a second after each file."""


@pytest.mark.parametrize("options", [["-q"], []], ids=["quiet", "plain"])
def test_the_report_and_the_progress_are_apart(terminal: Terminal, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    command = [sys.executable, "-c", RUN, "--output-format", "concise", "train.py", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=terminal.stream, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stdout.startswith("train.py:")
    assert "\x1b" not in run.stdout
    if options:
        assert terminal.raw == ""
    else:
        terminal.waits_for("1/1 files")
    piped = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (piped.stdout, piped.stderr) == (run.stdout, "")
