"""An error of our own, in whatever phase of a run: one line, status 2, and never a traceback that nobody asked for."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fake_rules import HINTS, TARGET, BrokenSnapshot
from test_cli import Faced, feed, lint, write  # noqa: F401
from torchperf_lint import check, cli, flake8_plugin, options
from torchperf_lint.engine import fix_rounds, fixer, jobs, pool, project
from torchperf_lint.engine.jobs import FileSystem, Job, run_job
from torchperf_lint.engine.mishaps import TRACEBACK
from torchperf_lint.engine.results import Results
from torchperf_lint.report import text
from word_rules import word_rules  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path

SAID = "internal error: KeyError: 'injected'; please report this"
PHASES = {
    "configuration": (options, "load", []),
    "discovery": (project, "discover", []),
    "kept reports": (Results, "load", []),
    "keeping reports": (Results, "save", []),
    "report": (text, "render", []),
    "diff": (check, "unified_diff", ["--diff"]),
    "writing": (project, "write_atomically", ["--fix"]),
    "options": (options, "check_parser", []),
}
PHASES_OF_A_FILE = {
    "reading": (FileSystem, "read", []),
    "judging": (jobs, "check_source", []),
    "versions": (jobs, "completed", []),
    "fixing": (fix_rounds, "fixing", ["--fix"]),
    "trying": (fix_rounds, "fixing", ["--diff"]),
}


def break_(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, error: type[BaseException] = KeyError) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise error("injected")

    monkeypatch.setattr(where, name, broken)


@pytest.mark.parametrize("phase", PHASES)
def test_an_error_of_a_run_is_one_line(lint: Faced, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:  # noqa: F811
    write("a.py", "slow\n")
    where, name, given = PHASES[phase]
    break_(monkeypatch, where, name)
    status, _, err = lint(*given)
    assert (status, err) == (2, f"torchperf-lint: error: {SAID}\n")


@pytest.mark.parametrize("phase", PHASES_OF_A_FILE)
def test_an_error_of_a_file_names_it(lint: Faced, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:  # noqa: F811
    path = write("a.py", "slow\n")
    where, name, given = PHASES_OF_A_FILE[phase]
    break_(monkeypatch, where, name)
    status, _, err = lint("-q", *given)
    assert (status, err) == (2, f"a.py: error: {SAID}\n")
    assert path.read_text() == "slow\n"


def test_an_error_of_standard_input_names_it_and_leaves_it_as_it_is(
    lint: Faced,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    break_(monkeypatch, fixer, "fix_source")
    for name in ([], ["--stdin-filename", "b.py"]):
        feed(monkeypatch, b"slow\n")
        assert lint("-", "--fix", "-q", *name) == (2, "slow\n", f"{name[1] if name else '-'}: error: {SAID}\n")


def test_an_error_of_one_file_costs_no_other(lint: Faced, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    write("a.py", "slow\n")
    write("b.py", "slow\n")
    whole = jobs.check_source

    def broken(path: str, *given: Any, **named: Any) -> Any:
        if path == "a.py":
            raise KeyError("injected")
        return whole(path, *given, **named)

    monkeypatch.setattr(jobs, "check_source", broken)
    status, out, err = lint("--output-format", "concise", "-q")
    assert (status, out, err) == (2, "b.py:1:1: TPL102 [*] `slow` is slow\n", f"a.py: error: {SAID}\n")


@pytest.mark.parametrize("command", [["explain", "TPL102"], ["rules"], ["verify", "TPL102"]])
def test_an_error_of_another_command_is_one_line(
    lint: Faced,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    break_(monkeypatch, cli, f"_{command[0]}")
    assert lint(*command) == (2, "", f"torchperf-lint: error: {SAID}\n")


def test_an_error_in_a_worker_process_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "import torch\nfor x in loader:\n    print(x.cuda().item())\n"
    work = [Job(f"{name}.py", ("TPL101",), TARGET, HINTS) for name in "ab"]
    for job in work:
        write(job.path, source)
    results = list(pool.in_pool(work, 2, BrokenSnapshot))  # type: ignore[arg-type]
    assert [str(each.report.failure) for each in results] == [f"{job.path}: error: {SAID}" for job in work]


def test_an_error_under_flake8_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    break_(monkeypatch, flake8_plugin, "check_source")
    ((row, column, said, _),) = flake8_plugin.Plugin(None, "a.py", ["slow\n"]).run()  # type: ignore[arg-type]
    assert (row, column, said) == (1, 0, f"TPL000 not checked: {SAID}")
    break_(monkeypatch, flake8_plugin, "_data_of")
    assert [each[2] for each in flake8_plugin.Plugin(None, "a.py", []).run()] == [said]  # type: ignore[arg-type]


def test_the_traceback_is_for_whoever_asks(lint: Faced, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    write("a.py", "slow\n")
    break_(monkeypatch, jobs, "check_source")
    monkeypatch.setenv(TRACEBACK, "1")
    status, _, err = lint("-q")
    assert status == 2
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(f"\na.py: error: {SAID}\n")


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, 130), (BrokenPipeError, 141)])
@pytest.mark.parametrize("phase", PHASES)
def test_interrupts_and_closed_pipes_keep_their_meaning(
    lint: Faced,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    error: type[BaseException],
    status: int,
) -> None:
    if phase == "writing" and error is BrokenPipeError:
        return  # of a linted file, that is another line
    write("a.py", "slow\n")
    where, name, options = PHASES[phase]
    break_(monkeypatch, where, name, error)
    monkeypatch.setattr(cli, "_send_nowhere", lambda stream: None)
    assert (lint(*options)[0], lint(*options)[2]) == (status, "")


def test_an_interrupt_is_no_error_of_a_file() -> None:
    class Interrupted(FileSystem):
        def read(self, path: str) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(Job("a.py", (), TARGET, HINTS), Interrupted(BrokenSnapshot))  # type: ignore[arg-type]


def test_an_installation_that_is_not_whole_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise ImportError('not whole')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "from torchperf_lint.__main__ import run; run()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    said = "torchperf-lint: error: internal error: ImportError: not whole; please report this\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


@pytest.mark.skipif(os.name == "nt", reason="a folder that is used is not removed there")
def test_a_current_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); import torchperf_lint.cli as cli"
    done = subprocess.run(
        [sys.executable, "-c", f"{command}; raise SystemExit(cli.main([]))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "torchperf-lint: error: the current folder is gone\n")


def test_an_error_that_cannot_be_printed(lint: Faced, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    break_(monkeypatch, options, "load", Mute)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert lint("-")[2] == "torchperf-lint: error: internal error: Mute: it cannot be printed; please report this\n"
