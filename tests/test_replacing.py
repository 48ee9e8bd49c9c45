"""Files that are replaced by a process that is killed: old or new, unseen by git, and tidied up by the next run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint.engine import replacing
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.replacing import UNFINISHED, write_atomically

WRITER = """\
import os, sys, time
from torchperf_lint.engine.replacing import replace, write_atomically

def paused(step, before):
    def does(*given):
        done = before and step(*given)
        print("ready", flush=True)
        sys.stdin.read()
        return done or step(*given)
    return does

setattr(os, "{step}", paused(os.{step}, {before}))
{call}
"""
WRITES, REPLACES = "write_atomically('a.py', b'new')", "replace('a.py', b'new')"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with one file, `a.py`."""
    monkeypatch.chdir(tmp_path)
    replacing._tidy.cache_clear()
    (tmp_path / "a.py").write_bytes(b"old")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y"]
    for command in (["init", "-q"], ["add", "a.py"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path


def start(step: str, *, after: bool = False, call: str = WRITES) -> subprocess.Popen[str]:
    """A process that replaces the file and waits before (or after) one step."""
    code = WRITER.format(step=step, before=after, call=call)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        [sys.executable, "-c", code], text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def let_go_on(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")


def unfinished(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.startswith(UNFINISHED))


def age(folder: Path, seconds: float = 60.0) -> None:
    for name in unfinished(folder):
        os.utime(folder / name, (time.time() - seconds,) * 2, follow_symlinks=False)


def git_status() -> str:
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


killed = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills nobody so")


@killed
@pytest.mark.parametrize(
    ("step", "after", "content"),
    [("fsync", False, b"old"), ("replace", False, b"old"), ("replace", True, b"new"), ("rmdir", False, b"new")],
)
@pytest.mark.parametrize("call", [WRITES, REPLACES])
def test_a_process_that_is_killed(here: Path, step: str, after: bool, content: bytes, call: str) -> None:
    if (step, call) == ("fsync", REPLACES):
        pytest.skip("what can be made again is not synced")
    process = start(step, after=after, call=call)
    process.kill()
    process.communicate()
    assert (here / "a.py").read_bytes() == content
    assert len(unfinished(here)) == 1
    assert git_status() == ("" if content == b"old" else " M a.py\n")
    age(here)
    write_atomically("a.py", b"newer")
    assert (here / "a.py").read_bytes() == b"newer"
    assert sorted(os.listdir(here)) == [".git", "a.py"]


@killed
@pytest.mark.parametrize("arguments", [["."], ["--fix", "."], ["--fix", "sub/a.py"]])
def test_the_next_run_tidies_up(here: Path, arguments: list[str]) -> None:
    from training_loop import LOOP

    (here / "sub").mkdir()
    (here / "a.py").rename(here / "sub" / "a.py")
    os.chdir(here / "sub")
    process = start("replace")
    process.kill()
    process.communicate()
    os.chdir(here)
    age(here / "sub")
    (here / "sub" / "a.py").write_text(LOOP)
    command = [sys.executable, "-m", "torchperf_lint", "--isolated", "-q", "--exit-zero", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(here / "sub") == ["a.py"]


@pytest.mark.skipif(os.name == "nt", reason="files are not locked there")
def test_another_process_at_work_is_left_alone(here: Path) -> None:
    process = start("replace")
    age(here)
    write_atomically("a.py", b"ours")
    assert len(unfinished(here)) == 1
    let_go_on(process)
    assert (here / "a.py").read_bytes() == b"new"
    assert unfinished(here) == []


def test_a_folder_that_was_only_just_made_is_left_alone(here: Path) -> None:
    (here / f"{UNFINISHED}0123").mkdir()
    write_atomically("a.py", b"new")
    assert unfinished(here) == [f"{UNFINISHED}0123"]


def test_what_may_be_somebody_elses_is_left_alone(here: Path) -> None:
    (here / f"{UNFINISHED}notes").mkdir()
    (here / f"{UNFINISHED}notes" / "page.md").write_text("mine")
    (here / f"{UNFINISHED}notes" / ".gitignore").write_text("*")
    (here / f"{UNFINISHED}file").write_text("mine")
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "new").write_text("mine")
    (here / f"{UNFINISHED}link").symlink_to("elsewhere")
    age(here, 1_000_000)
    write_atomically("a.py", b"new")
    assert unfinished(here) == [f"{UNFINISHED}{name}" for name in ("file", "link", "notes")]
    assert sorted(os.listdir(here / f"{UNFINISHED}notes")) == [".gitignore", "page.md"]
    assert os.listdir(here / "elsewhere") == ["new"]


def test_files_that_cannot_be_locked_are_written_and_tidied_up_in_the_end(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    (here / f"{UNFINISHED}0123").mkdir()
    (here / f"{UNFINISHED}0123" / ".gitignore").write_text("*")
    age(here)
    write_atomically("a.py", b"new")
    assert (here / "a.py").read_bytes() == b"new"
    assert unfinished(here) == [f"{UNFINISHED}0123"]
    replacing._tidy.cache_clear()
    age(here, 100_000)
    write_atomically("a.py", b"newer")
    assert unfinished(here) == []


def test_a_torn_cache_document_is_tidied_up(here: Path) -> None:
    folder = here / CACHE_FOLDER
    (folder / f"{UNFINISHED}0123").mkdir(parents=True)
    (folder / f"{UNFINISHED}0123" / "new").write_text("{")
    age(folder)
    (here / "a.py").write_text("import torch\nx = torch.ones(1).cuda().item()\n")
    command = [sys.executable, "-m", "torchperf_lint", "-q", "--exit-zero", "."]
    subprocess.run(command, check=True)
    assert unfinished(folder) == []
    assert len(os.listdir(folder)) > 2
