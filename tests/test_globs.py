"""Lines of a `.gitignore` mean what they mean to git, and none of them breaks a run or warns."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import pytest

from torchperf_lint.engine.globs import can_match, matcher

if TYPE_CHECKING:
    from pathlib import Path

NAMES = """
a b z A Z 0 9 _ - ! [ ] ^ & ~ | \\ ab a-b a]b x[a] [a d/a d/b a.b a: l -] dab d.a dxb
""".split()
WITH_WHITE_SPACE = ["a\t", "a ", "a \t", "a\t ", "ab\t", "a\\\t", "a\f", "\ta"]
LINES = r"""
[a-z] [z-a] [!z-a] [!a] [^a] [a-] [-a] [--0] [+--] [a-a] []] []a] [!]] [!]a-] [[] [[]] [![] [a[] [[-a] [a/b] d[!a]a
d[+-9]b [a&&b] [a||b] [a~~b] [&&-|] [!-~] [\]] [\a-\z] [a\-z] [\\] [!\\] [^^] [!!] [!^!] a[ [ [! [] a[]b
[[:alpha:]] [![:alpha:]] [[:digit:][:punct:]_] [[:upper:]-z] [[:alpha:] [[:nope:]] [[:alpha] [[:a] [:alpha:]
[[:xdigit:]] [[:alnum:]-] *[[:digit:]] [a-[:digit:]] x\[a\] \[a [[:space:][:lower:]]?[[:lower:]] [a-z-9] **/[!x]
""".split()
LINES_WITH_WHITE_SPACE = [
    "a\t",
    "a\t ",
    "a ",
    "a\\ ",
    "a \t",
    "a\t\\ ",
    "a\\\t",
    "a\\\\\t",
    "a[b]\t",
    "a\f",
    "\ta",
    "d/a\t",
    "a\t\t",
    " ",
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty git repository."""
    place = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "."], cwd=place, env=_alone(), check=True)
    return place


def _alone() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@pytest.mark.parametrize("line", [*LINES, *LINES_WITH_WHITE_SPACE])
def test_a_line_matches_what_git_matches(repository: Path, line: str) -> None:
    (repository / ".gitignore").write_text(f"{line}\n")
    names = [*NAMES, *WITH_WHITE_SPACE]
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repository, env=_alone(), input="\0".join(names).encode(), capture_output=True, check=False,
    )  # fmt: skip
    ignored = set(filter(None, asked.stdout.decode().split("\0")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {name for name in names if matcher([line]).match_file(name)} == ignored
        assert can_match(line) or not ignored or "z-a" in line


@pytest.mark.parametrize("line", ["[z-a]", "a[", "[[:nope:]]", "a\\", "!", "", "# a", "[[:alpha:]", "x[b-a]*.py"])
def test_a_line_that_can_match_nothing_is_told(line: str) -> None:
    assert not can_match(line)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    # Every warning is shown: one that leaks is found in stderr.
    return subprocess.run(
        [sys.executable, "-W", "always::FutureWarning", "-m", *command],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_gitignore_that_cannot_be_read_whole_costs_those_lines(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("[z-a]\n[[:alpha:]].py\n[a&&b]\n1[\n2.py\n")
    for name in ("a.py", "1.py", "2.py"):
        (tmp_path / name).write_text("x = 1 +\n")
    done = run(tmp_path, "torchperf_lint", "--no-cache")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["1.py:1:8: error: syntax error: invalid syntax"]


@pytest.mark.parametrize("key", ["exclude", "extend-exclude", "per-file-ignores"])
@pytest.mark.parametrize("glob", ["[z-a]", "src/[b-a]*.py", "[[:nope:]]"])
def test_a_glob_of_the_configuration_that_cannot_be_read_is_one_line(tmp_path: Path, key: str, glob: str) -> None:
    value = f'{{ "{glob}" = ["TPL1"] }}' if key == "per-file-ignores" else f'["{glob}"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.torchperf-lint]\n{key} = {value}\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    done = run(tmp_path, "torchperf_lint")
    said = f"{tmp_path}/pyproject.toml: error: [tool.torchperf-lint] `{key}`: `{glob}` is not a glob as in a .gitignore"
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (2, "", [said])


def test_a_glob_of_the_command_line_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    done = run(tmp_path, "torchperf_lint", "--exclude", "[z-a]")
    said = "torchperf-lint: error: argument --exclude: `[z-a]` is not a glob as in a .gitignore"
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (2, "", [said])


def test_under_flake8_such_a_gitignore_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".gitignore").write_text("[z-a]\n[[:digit:]]\n")
    (tmp_path / "a.py").write_text("import torch\nfor x in y:\n    print(x.cuda().item())\n")
    done = run(tmp_path, "flake8", "--isolated", "--select", "TPL", "--torchperf-no-cache", "a.py")
    assert done.stderr == ""
    assert "TPL000" not in done.stdout
