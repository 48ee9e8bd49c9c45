"""How the program begins: what lies in the folder that is linted is read, and never run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint import __main__ as program
from torchperf_lint.engine.executors import WORTH_A_POOL
from training_loop import LOOP

HOSTILE = (
    "__future__ ast json libcst logging multiprocessing pathspec pickle rich selectors signal socket tempfile tomli"
)
"""Modules that a run may want, or Python itself in a process that is started; `python -m` has none of them by then."""


def lint(folder: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "--output-format", "concise", "--no-cache", "."],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a finding, enough source for worker processes, and modules that leave a mark when they are run."""
    for name in HOSTILE.split():
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})\n")
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "text.py").write_text(("#" + "x" * 99 + "\n") * (WORTH_A_POOL // 100))
    return tmp_path


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_module_of_the_linted_folder_is_run(hostile: Path, jobs: str) -> None:
    done = lint(hostile, sys.executable, "-m", "torchperf_lint", "--jobs", jobs)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("TPL102") == 1
    assert not (hostile / "executed").exists()


def test_an_empty_entry_of_the_users_path_is_not_its_folder(hostile: Path) -> None:
    done = lint(hostile, sys.executable, "-m", "torchperf_lint", PYTHONPATH=f"{os.pathsep}{hostile / 'elsewhere'}")
    assert (done.returncode, done.stderr) == (1, "")
    assert not (hostile / "executed").exists()


def test_nor_by_the_workers_of_the_installed_script(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    script = tmp_path_factory.mktemp("bin") / "torchperf-lint"
    script.write_text("from torchperf_lint.__main__ import run\nif __name__ == '__main__':\n    run()\n")
    done = lint(hostile, sys.executable, str(script), "--jobs", "2")
    assert (done.returncode, done.stderr) == (1, "")
    assert not (hostile / "executed").exists()


def test_a_checkout_that_is_not_installed_runs_in_place(hostile: Path) -> None:
    """Its folder goes to the end of the path, where it hides nothing, so that workers find the package."""
    (hostile / "torchperf_lint").symlink_to(ROOT / "torchperf_lint")
    packages = [each for each in sys.path if each.endswith("site-packages")]
    # Without `site` no editable install is found; the packages come as PYTHONPATH names them.
    command = [sys.executable, "-S", "-m", "torchperf_lint", "--exclude", "torchperf_lint", "--jobs", "2"]
    done = lint(hostile, *command, PYTHONPATH=os.pathsep.join(packages))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("TPL102") == 1
    assert not (hostile / "executed").exists()


def test_a_folder_that_the_user_names_stays_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setattr(sys, "path", [os.getcwd(), os.getcwd(), "lib"])
    program._leave_current_folder()
    assert sys.path == [os.getcwd(), "lib"]
    monkeypatch.setattr(sys, "path", ["bin", os.getcwd(), "lib"])
    program._leave_current_folder()
    assert sys.path == ["bin", os.getcwd(), "lib"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python always puts the folder first")
def test_nothing_is_taken_away_where_python_has_put_nothing(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise SystemExit('as asked')")
    (tmp_path / "train.py").write_text(LOOP)
    code = "import runpy, sys; runpy.run_module('torchperf_lint', run_name='__main__', alter_sys=True)"
    command = [sys.executable, "-P", "-c", f"try:\n {code}\nexcept SystemExit: print(sys.path[0])".replace("; ", "\n ")]
    done = lint(tmp_path, *command, PYTHONPATH=str(tmp_path))
    assert done.stdout.splitlines()[-1] == str(tmp_path)
