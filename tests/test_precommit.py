"""The pre-commit hooks, under the real pre-commit on a copy of this checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training_loop import FOUND_AT, LOOP, SLOW_LINE

CHECKOUT = Path(__file__).parent.parent

SHIPPED = (
    "torchperf_lint",
    "rules",
    "fixtures",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
    ".pre-commit-hooks.yaml",
)
"""What the hook's environment is built from."""

# A git command or hook around the tests must not turn those of the tests to its own repository.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "core.autocrlf=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=CLEAN).stdout


def repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "start")
    return folder


@pytest.fixture
def offered(tmp_path):
    """A git repository that offers the hooks."""
    folder = tmp_path / "torchperf-lint"
    folder.mkdir()
    for name in SHIPPED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_pages"))
        else:
            shutil.copy2(source, folder / name)
    return repository(folder)


def run_hooks(offered: Path, project: Path, *files: str) -> tuple[int, str, str]:
    """Run both hooks, on all files if none are named: the exit status, what the one prints, and what the other.

    Their environment is made by the first run in the folder of `offered`.
    """
    config = offered.parent / "hooks.yaml"
    commit = git(offered, "rev-parse", "HEAD").strip()
    hooks = "[{id: torchperf-lint}, {id: torchperf-lint-fix}]"
    config.write_text(f"repos: [{{repo: {offered}, rev: {commit}, hooks: {hooks}}}]")
    which = ("--files", *files) if files else ("--all-files",)
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", "--config", str(config), *which, "--verbose"],
        cwd=project,
        env=CLEAN | {"PRE_COMMIT_HOME": str(offered.parent / "store"), "PRE_COMMIT_COLOR": "never"},
        capture_output=True,
        text=True,
        check=False,
    )
    parts = re.split(r"^torchperf-lint(?:-fix)?\.{3,}", done.stdout, flags=re.MULTILINE)
    assert len(parts) == 3, done.stdout + done.stderr
    return done.returncode, parts[1], parts[2]


@pytest.mark.slow
def test_one_hook_reports_and_the_other_repairs(offered, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    train, notes = project / "train.py", project / "notes.txt"
    train.write_text(LOOP)
    notes.write_text(LOOP)
    repository(project)

    status, checked, fixed = run_hooks(offered, project)
    assert status == 1
    assert f"train.py:{FOUND_AT}: TPL102 [*] " in checked
    assert "files were modified" not in checked
    assert "files were modified by this hook" in fixed
    assert SLOW_LINE not in train.read_text()
    assert notes.read_text() == LOOP
    assert "notes.txt" not in checked + fixed

    git(project, "commit", "-q", "-a", "-m", "fixed")
    status, checked, fixed = run_hooks(offered, project)
    assert status == 0, checked + fixed
    assert checked.startswith("Passed")
    assert fixed.startswith("Passed")

    (project / "helper.py").write_text("def record(history, loss):\n    history.append((2 * loss).item())\n")
    train.write_text(train.read_text().replace("optimizer.step()", "optimizer.step(); record([], outputs.mean())"))
    train.write_text(f"from helper import record\n{train.read_text()}")
    git(project, "add", "helper.py", "train.py")
    git(project, "commit", "-q", "-m", "a helper")
    status, checked, _ = run_hooks(offered, project, "helper.py")
    assert status == 1
    assert "helper.py:2:20: TPL102 " in checked
    assert "= because: train.py:" in checked
    assert "Found 1 finding." in checked
    assert run_hooks(offered, project, "train.py")[0] == 0
    assert git(project, "status", "--porcelain") == "", "what is kept of the project is nothing to commit"


@pytest.mark.parametrize("document", ["README.md", "docs/guide.md"])
def test_documents_show_one_of_the_two_hooks(document):
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert re.findall(r"- id: (\S+)", shown) == ["torchperf-lint"]
