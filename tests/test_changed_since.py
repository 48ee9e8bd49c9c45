"""`--changed-since`: findings on lines that differ from a commit, by a real git, judged with the whole project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from git_project import begun, committed, git
from linting import ROOT
from test_baseline import places
from test_cli import Faced, feed, lint, write  # noqa: F401
from torchperf_lint.adopt.changed import changes_since
from training_loop import LOOP
from word_rules import word_rules  # noqa: F401


@pytest.fixture
def repository(lint: Faced, monkeypatch: pytest.MonkeyPatch) -> Faced:  # noqa: F811
    """The command line in an empty repository, without git's settings of whoever runs the tests."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    begun()
    return lint


def test_only_changed_lines_are_reported(repository):
    path = write("a.py", "slow\n\n\n\nslow()\n")
    write("b.py", "slow\n")
    committed()
    assert places(repository, "--changed-since", "HEAD") == []
    path.write_text("slow\n\nslow + 1\n\nslow()\n")
    assert places(repository, "--changed-since", "HEAD") == ["a.py:3"]
    git("add", "a.py")
    assert places(repository, "--changed-since", "HEAD") == ["a.py:3"], "the index counts as what is on disk"
    committed()
    assert places(repository, "--changed-since", "HEAD") == []
    assert places(repository, "--changed-since", "HEAD~1") == places(repository, "--changed-since", "@~") == ["a.py:3"]


def test_lines_around_a_deletion_did_not_change(repository):
    path = write("a.py", "slow\nx = 1\nslow()\n")
    committed()
    path.write_text("slow\nslow()\n")
    assert places(repository, "--changed-since", "HEAD") == []


def test_a_branch_is_compared_with_where_it_left_the_other_one(repository):
    path = write("a.py", "slow\n\n\n\n\nslow()\n")
    committed()
    git("checkout", "-q", "-b", "mine")
    path.write_text("slow\n\n\n\n\nslow()\nslow + 2\n")
    committed()
    git("checkout", "-q", "main")
    path.write_text("x = 1\n\n\n\n\nslow()\n")
    committed()
    git("checkout", "-q", "mine")
    assert places(repository, "--changed-since", "main") == ["a.py:7"]


def test_without_a_common_commit_it_is_compared_with_the_commit_itself(repository):
    write("a.py", "slow\n")
    other = committed()
    git("checkout", "-q", "--orphan", "mine")
    write("a.py", "slow\nslow()\n")
    committed()
    assert places(repository, "--changed-since", other) == ["a.py:2"]


def test_new_and_untracked_files_have_changed_as_a_whole(repository):
    write("a.py", "slow\n")
    write(".gitignore", "ignored.py\n")
    committed()
    write("sub/untracked.py", "slow\n")
    write("added.py", "slow\n")
    git("add", "added.py")
    write("meant.py", "slow\n")
    git("add", "-N", "meant.py")
    write("ignored.py", "slow\n")
    assert places(repository, "--changed-since", "HEAD") == ["added.py:1", "meant.py:1", "sub/untracked.py:1"]
    assert places(repository, "--changed-since", "HEAD", "ignored.py") == ["ignored.py:1"]


def test_a_renamed_file_has_only_changed_where_its_text_has(repository):
    lines = [f"x{each} = {each}\n" for each in range(20)]
    write("old.py", "".join(["slow\n", *lines]))
    committed()
    git("mv", "old.py", "new.py")
    assert places(repository, "--changed-since", "HEAD") == []
    write("new.py", "".join(["slow\n", *lines, "slow()\n"]))
    assert places(repository, "--changed-since", "HEAD") == ["new.py:22"]


def test_folders_below_the_top_and_paths_of_any_form(repository, monkeypatch):
    write("one/a.py", "slow\n")
    write("two/b.py", "slow\n")
    committed()
    for path in ("one/a.py", "two/b.py"):
        write(path, "slow\nslow()\n")
    monkeypatch.chdir("one")
    since = ("--changed-since", "HEAD")
    assert places(repository, *since) == ["a.py:2"]
    assert places(repository, *since, "..") == ["../one/a.py:2", "../two/b.py:2"]
    there = Path("../two/b.py").resolve()
    assert places(repository, *since, str(there)) == [f"{there}:2"]
    Path("../three").symlink_to("two")
    assert places(repository, *since, "../three/b.py") == ["../three/b.py:2"]


@pytest.mark.parametrize("name", ["a b.py", 'a"b.py', "é.py", "a\tb.py", "a\\b.py", "b/b.py", "-x.py", "\udcff.py"])
def test_names_of_files_may_be_anything(repository, name):
    write(f"./{name}", "slow\n")
    committed()
    write(f"./{name}", "slow\nslow()\n")
    git("config", "core.quotePath", "true")
    top = changes_since("HEAD", ".")
    assert top.rows == {name: ((2, 2),)}
    assert len(places(repository, "--changed-since", "HEAD")) == 1


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", "false"),
        ("diff.context", "7"),
        ("diff.interHunkContext", "9"),
        ("diff.renames", "false"),
        ("diff.relative", "true"),
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("core.pager", "false"),
        ("diff.submodule", "log"),
        ("diff.wordRegex", "."),
        ("core.fsmonitor", "false"),
    ],
)
def test_settings_of_git_change_nothing(repository, monkeypatch, setting, value):
    write("sub/a.py", "slow\n\n\n\nslow()\nx\nx\nx\nx\nx\n")
    write(".gitattributes", "*.py -diff\n")
    committed()
    git("config", setting, value)
    git("mv", "sub/a.py", "sub/b.py")
    write("sub/b.py", "slow + 3\n\n\n\nslow()\nx\nx\nslow + 1\nx\nx\n")
    monkeypatch.chdir("sub")
    assert places(repository, "--changed-since", "HEAD") == ["b.py:1", "b.py:8"]


def test_lines_that_look_like_a_diff_are_lines(repository):
    text = '"""\n--- a/a.py\n+++ b/b.py\n@@ -1 +1 @@\n"""\n'
    path = write("a.py", text)
    write("b.py", "slow\n")
    committed()
    path.write_text(text.replace("b/b.py", "b/b.py ").replace("+1 @@", "+1 @@ ") + "slow")
    assert places(repository, "--changed-since", "HEAD") == ["a.py:6"]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_rows_are_those_of_python_whatever_ends_a_line(repository, end):
    lines = ["slow", "x = '\f'", "slow()", "x", "x"]
    write("a.py", end.join([*lines, ""]).encode())
    committed()
    write("a.py", end.join([*lines, "slow + 1", ""]).encode())
    git("config", "core.autocrlf", "false")
    found = places(repository, "--changed-since", "HEAD")
    # To git a file without line feeds is one line.
    assert found == (["a.py:6"] if end == "\r\n" else ["a.py:1", "a.py:3", "a.py:6"])


def test_only_lines_of_what_changed_are_fixed_and_shown(repository):
    path = write("a.py", "slow\n")
    write("b.py", "slow\n")
    committed()
    path.write_text("slow\nslow()\n")
    since = ("--changed-since", "HEAD")
    assert repository(*since, "--show-files") == (0, "a.py\n", "")
    assert "+fast()" in repository(*since, "--diff")[1].splitlines()
    assert repository(*since, "--fix", "-q")[0] == 0
    assert path.read_text() == "slow\nfast()\n"
    assert Path("b.py").read_text() == "slow\n"


def test_a_file_that_did_not_change_is_not_even_read(repository):
    write("broken.py", "slow(\n")
    write("a.py", "x = 1\n")
    committed()
    write("a.py", "slow\n")
    status, _, err = repository("--changed-since", "HEAD", "-q")
    assert (status, err) == (1, "")


def test_what_lies_in_a_submodule_is_compared_there(repository, tmp_path):
    inner = tmp_path / "inner"
    write("inner/b.py", "slow\n")
    begun(inner)
    committed(inner)
    write("outer/a.py", "slow\n")
    begun("outer")
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub", where="outer")
    committed("outer")
    since = ("--changed-since", "HEAD")
    assert places(repository, *since, "outer") == []
    write("outer/sub/b.py", "slow\nslow()\n")
    assert places(repository, *since, "outer") == ["outer/sub/b.py:2"]
    committed("outer/sub")
    assert places(repository, *since, "outer") == ["outer/sub/b.py:2"]
    write("outer/nested/c.py", "slow\n")
    begun("outer/nested")
    assert places(repository, *since, "outer") == ["outer/nested/c.py:1", "outer/sub/b.py:2"]
    assert not Path("outer/sub/.torchperf_lint_cache").exists(), "it is a part of the project that is linted"


def test_each_of_several_repositories_is_compared(lint, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in ("one", "two"):
        write(f"{name}/a.py", "slow\n")
        begun(name)
        committed(name)
    write("one/a.py", "slow\nslow()\n")
    write("two/b.py", "slow\n")
    assert places(lint, "--changed-since", "HEAD", "one", "two/a.py", "two/b.py") == ["one/a.py:2", "two/b.py:1"]
    assert lint("--changed-since", "HEAD", "--show-files", "one", "two") == (0, "one/a.py\ntwo/b.py\n", "")
    git("tag", "only", where="one")
    told = f"torchperf-lint: error: git knows no commit `only` in {tmp_path}/two\n"
    assert lint("--changed-since", "only", "one", "two") == (2, "", told)
    write("c.py", "slow\n")
    _, _, err = lint("--changed-since", "HEAD", "one", "c.py")
    assert err.startswith(f"torchperf-lint: error: git finds no repository around {tmp_path}: ")
    status, _, err = lint("--changed-since", "HEAD", ".")
    assert status == 2, "a folder that only holds repositories is in none"
    assert err.startswith(f"torchperf-lint: error: git finds no repository around {tmp_path}: ")


def test_a_repository_inside_another_is_new_to_that_one(repository):
    write("a.py", "slow\n")
    committed()
    write("inner/b.py", "slow\n")
    begun("inner")
    committed("inner")
    since = ("--changed-since", "HEAD")
    assert places(repository, *since, "inner/b.py") == []
    assert places(repository, *since, "inner/b.py", "a.py") == places(repository, *since) == ["inner/b.py:1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope"], "torchperf-lint: error: git knows no commit `nope`"),
        (["--output=x"], "torchperf-lint: error: git knows no commit `--output=x`"),
        (["HEAD:a.py"], "torchperf-lint: error: git knows no commit `HEAD:a.py`"),
        ([""], "argument --changed-since: no commit is named"),
        (["HEAD", "-"], "--changed-since is for files: it cannot stand beside the path `-`"),
    ],
)
def test_what_git_does_not_know_is_one_line(repository, arguments, told):
    write("a.py", "slow\n")
    committed()
    first, *others = arguments
    for options in ([], ["--show-files"]):
        status, out, err = repository(f"--changed-since={first}", *options, *others)
        assert (status, out) == (2, "")
        assert told in err
        assert len(err.splitlines()) == 1


def test_a_repository_without_commits_and_no_repository_are_one_line(repository, tmp_path, monkeypatch):
    write("a.py", "slow\n")
    assert repository("--changed-since", "HEAD") == (2, "", "torchperf-lint: error: git knows no commit `HEAD`\n")
    outside = tmp_path / "outside"
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    outside.mkdir()
    monkeypatch.chdir(outside)
    write("a.py", "slow\n")
    status, out, err = repository("--changed-since", "HEAD")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"torchperf-lint: error: git finds no repository around {outside}: ")


def test_no_git_is_one_line(repository, monkeypatch, tmp_path):
    write("a.py", "slow\n")
    committed()
    monkeypatch.setenv("PATH", str(tmp_path))
    told = "torchperf-lint: error: git cannot be run: No such file or directory\n"
    assert repository("--changed-since", "HEAD") == (2, "", told)


def test_in_a_hook_the_places_of_git_are_relative(repository, monkeypatch):
    write("sub/a.py", "slow\n")
    committed()
    write("sub/a.py", "slow\nslow()\n")
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_WORK_TREE", ".")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    assert places(repository, "--changed-since", "HEAD", "sub") == ["sub/a.py:2"]


def _lint(folder: Path, *options: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "torchperf_lint", "--output-format", "concise", "-q", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [":".join(line.split(":")[:2]) + line.split(":")[3][:7] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_whole_project_is_known_and_any_line_of_the_statement_counts(tmp_path):
    """A helper is hot because of a file that did not change; its finding counts where a row of its statement did."""
    begun(tmp_path)
    helper = tmp_path / "helper.py"
    lines = ["def told(loss):", "    print(", "        loss.item(),", "    )", ""]
    helper.write_text("\n".join(lines))
    step = "        optimizer.step()"
    loop = LOOP.replace("import torch", "import torch\nfrom helper import told")
    (tmp_path / "train.py").write_text(loop.replace(step, f"{step}\n        told(outputs.mean())"))
    committed(tmp_path)
    found = "helper.py:3 TPL105"
    assert found in _lint(tmp_path)
    for options in ([], ["--no-cache"]):
        assert _lint(tmp_path, "--changed-since", "HEAD", *options) == []
        for row, counts in ((1, True), (2, True), (3, True), (0, False)):
            helper.write_text("\n".join([*lines[:row], f"{lines[row]}  # a remark", *lines[row + 1 :]]))
            assert _lint(tmp_path, "--changed-since", "HEAD", *options) == ([found] if counts else [])
        helper.write_text("\n".join(lines))
