"""Options and settings that users of ruff expect: with the same names, they do the same."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from linting import ROOT
from test_cli import Faced, feed, lint, write  # noqa: F401
from torchperf_lint import config
from training_loop import FOUND_AT, LOOP
from word_rules import word_rules  # noqa: F401

WATCHING = "Watching for changes; Ctrl-C ends it.\n"
FIXED = "Fixed 1 finding in 1 file:\n  a.py\n    1 TPL102 slow-word\n"


@pytest.fixture
def code() -> Path:
    """A file with a finding whose fix is safe, and one whose fix is not."""
    return write("a.py", "x = slow\nrisky\n")


def test_fix_only_fixes_and_reports_nothing_else(lint, code: Path) -> None:  # noqa: F811
    assert lint("--fix-only") == (0, "", FIXED)
    assert code.read_text() == "x = fast\nrisky\n"
    assert lint("--fix-only") == (0, "", "")
    code.write_text("slow\n")
    assert lint("--fix-only", "--exit-non-zero-on-fix", "--output-format", "json", "-q") == (1, "", "")
    code.write_text("slow(\n")
    assert lint("--fix-only")[0] == 2
    assert code.read_text() == "slow(\n"


def test_fix_only_is_a_filter(lint, monkeypatch) -> None:  # noqa: F811
    feed(monkeypatch, b"slow\nrisky\n")
    assert lint("-", "--fix-only", "-q") == (0, "fast\nrisky\n", "")


def test_fixes_are_shown_although_quiet(lint, code: Path) -> None:  # noqa: F811
    status, out, err = lint("--fix", "--show-fixes", "--quiet", "--output-format", "concise")
    assert (status, err) == (1, "")
    assert out == "a.py:2:1: TPL201 `risky` is risky\n" + FIXED
    code.write_text("slow\n")
    assert lint("--fix-only", "--show-fixes", "-q") == (0, "", FIXED)
    code.write_text("slow\n")
    assert lint("--fix", "--show-fixes", "-q", "--output-format", "json") == (0, "[]\n", FIXED)
    code.write_text("slow\n")
    assert lint("--fix", "--show-fixes", "-q", "--output-format", "summary")[1].startswith(FIXED)


@pytest.mark.parametrize(
    ("options", "text", "settings"),
    [
        (["--unfixable", "TPL1"], "slow daring", ""),
        (["--unfixable", "slow-word,TPL2"], "slow risky", ""),
        (["--fixable", "TPL2"], "slow daring", ""),
        (["--fixable", "TPL2", "--extend-fixable", "TPL102"], "fast daring", ""),
        (["--fixable", "TPL102", "--unfixable", "TPL"], "fast risky", ""),
        ([], "slow risky", 'fixable = ["TPL2"]\nunfixable = ["TPL201"]'),
        (["--extend-fixable", "TPL102"], "fast risky", 'fixable = ["TPL2"]\nunfixable = ["TPL201"]'),
        (["--fixable", "ALL"], "fast daring", 'unfixable = ["ALL"]'),
    ],
)
def test_fixes_of_some_rules_are_only_shown(lint, options: list[str], text: str, settings: str) -> None:  # noqa: F811
    write("torchperf-lint.toml", settings)
    path = write("a.py", "slow; risky = 1\n")
    lint("--fix", "--unsafe-fixes", *options)
    assert path.read_text().replace(";", "") == f"{text} = 1\n"


def test_a_fix_that_is_held_is_still_shown_and_not_counted(lint, code: Path) -> None:  # noqa: F811
    for _ in range(2):  # the second time from the cache
        assert "[*]" in lint()[1]
        out = lint("--unfixable", "TPL102", "--output-format", "full")[1]
        assert "fix: say it otherwise (shown" in out
        assert "[*]" not in out
    assert lint("--unfixable", "TPL102", "--diff") == (0, "", "Would fix 0 findings in 0 files.\n")
    code.write_text("x = 1  # noqa: TPL102\n")
    assert lint("--unfixable", "TPL001", "--fix", "-q")[0] == 1
    assert "noqa" in code.read_text()


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: TPL102", "# torchperf-lint: ignore"])
def test_comments_can_be_ignored(lint, comment: str) -> None:  # noqa: F811
    write("a.py", f"x = slow  {comment}\n")
    write("b.py", "# torchperf-lint: ignore-file\nx = slow\n")
    for _ in range(2):  # the second time from the cache
        assert lint("--output-format", "concise", "-q") == (0, "", "")
        found = "a.py:1:5: TPL102 [*] `slow` is slow\nb.py:2:5: TPL102 [*] `slow` is slow\n"
        assert lint("--output-format", "concise", "-q", "--ignore-noqa") == (1, found, "")
    write("a.py", "x = 1  # noqa: TPL102\n")
    assert lint("a.py", "--ignore-noqa") == (0, "No findings.\n", "")
    assert "cannot stand beside --ignore-noqa" in lint("--add-noqa", "--ignore-noqa")[2]


def test_short_options(lint, code: Path) -> None:  # noqa: F811
    assert lint("-e", "-q")[0] == 0
    assert Path(".torchperf_lint_cache").is_dir()
    assert lint("clean") == (0, "", "Removing cache at: .torchperf_lint_cache\n")
    assert lint("-n")[0] == 1
    assert not Path(".torchperf_lint_cache").exists()


def test_colours_are_printed_when_they_are_asked_for(lint, code: Path, monkeypatch) -> None:  # noqa: F811
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" in lint("--color", "always")[1]
    assert "\x1b[" not in lint("--color", "auto")[1]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in lint()[1]
    for never in (["--color", "never"], ["--no-color"]):
        assert "\x1b[" not in lint(*never)[1]


def test_clean_removes_caches_here_below_and_in_the_project(lint, code: Path, monkeypatch) -> None:  # noqa: F811
    write("pyproject.toml", "")
    for folder in ("", "deep/er/", "deep/er/more/"):
        write(f"{folder}.torchperf_lint_cache/a.json", "{}")
    Path("kept").mkdir()
    write("kept/a.json", "{}")
    Path("deep/er/link").mkdir()
    Path("deep/er/link/.torchperf_lint_cache").symlink_to(Path("kept").absolute())
    monkeypatch.chdir("deep/er")
    removed = ("../../.torchperf_lint_cache", ".torchperf_lint_cache", "more/.torchperf_lint_cache")
    assert lint("clean") == (0, "", "".join(f"Removing cache at: {path}\n" for path in removed))
    assert lint("clean") == (0, "", "")
    assert Path("../../kept/a.json").exists()
    assert Path("../../a.py").exists()
    write(".torchperf_lint_cache/a.json", "{}")
    assert lint("clean", "--quiet") == (0, "", "")
    assert not Path(".torchperf_lint_cache").exists()


# Configuration


def test_single_settings_stand_on_the_command_line(lint, code: Path) -> None:  # noqa: F811
    write("torchperf-lint.toml", 'ignore = ["TPL102"]')
    found = lambda *options: lint("-q", "--output-format", "concise", *options)[1]  # noqa: E731
    assert "TPL102" not in found()
    assert "TPL102" in found("--config", "ignore = []")
    assert "TPL102" in found("--config", "ignore=[]", "--config", "torchperf-lint.toml")
    assert "TPL102" not in found("--config", "ignore=[]", "--ignore", "TPL102")
    assert found("--config", 'min-severity = "error"', "--isolated") == "a.py:1:5: TPL102 [*] `slow` is slow\n"
    write("x=1.toml", "")
    assert "TPL102" in found("--config", "x=1.toml")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["ignor = []"], "has no key `ignor`; the nearest is `ignore`"),
        (["ignore = "], "is not TOML: "),
        (['ignore = []\nselect = ["ALL"]'], "is neither a file nor one `key = value`"),
        (["extend = 'a.toml'"], "is neither a file nor one `key = value`"),
        (["gone.toml"], "cannot be read: No such file or directory"),
        (["a.py", "b.py"], "--config names one file: a.py cannot stand beside b.py"),
    ],
)
def test_a_mistake_in_such_a_setting_is_one_line(lint, given: list[str], reason: str) -> None:  # noqa: F811
    status, out, err = lint(*(word for each in given for word in ("--config", each)))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def test_a_file_is_based_on_another(lint, tmp_path: Path) -> None:  # noqa: F811
    write("base.toml", 'select = ["TPL1"]\nignore = ["TPL2"]\nextend-exclude = ["a"]\nbaseline = "k.json"\n')
    write("sub/torchperf-lint.toml", 'extend = "../middle.toml"\nextend-select = ["TPL2"]\nextend-exclude = ["b"]\n')
    write("middle.toml", 'extend = "base.toml"\nfail-on = "error"\nfixable = ["TPL1"]\n')
    read = config.load("sub")
    assert read.root == str(tmp_path / "sub")
    assert read.source == str(tmp_path / "sub" / "torchperf-lint.toml")
    assert read.extend is not None
    assert os.path.samefile(read.extend, "middle.toml")
    assert [rule.code for rule in read.rules] == ["TPL102", "TPL201"]
    assert (read.extend_exclude, read.fail_on.value, read.fixable) == (("a", "b"), "error", ("TPL1",))
    assert read.baseline == str(tmp_path / "k.json")
    write("sub/torchperf-lint.toml", 'extend = "../base.toml"\nselect = ["TPL2"]\n')
    assert [rule.code for rule in config.load("sub").rules] == ["TPL201"], "`select` replaces the base's selectors"


def test_a_base_that_cannot_be_read_is_one_line(lint) -> None:  # noqa: F811
    write("torchperf-lint.toml", 'extend = "other.toml"')
    told = "other.toml: error: cannot be read: No such file or directory"
    assert lint()[2].endswith(f"{told} (`extend` of {Path.cwd()}/torchperf-lint.toml)\n")
    write("other.toml", 'extend = "torchperf-lint.toml"')
    assert lint()[2].endswith("is based on this file itself\n")
    write("other.toml", 'extend = "pyproject.toml"')
    write("pyproject.toml", "[tool.torchperf-lint]\nunknown = 1\n")
    assert "pyproject.toml: error: [tool.torchperf-lint] has no key `unknown`" in lint()[2]


def test_files_that_are_named_can_be_left_out(lint, monkeypatch) -> None:  # noqa: F811
    write("gen/a.py", "slow\n")
    write("b.py", "slow\n")
    named = ("--extend-exclude", "gen", "-q", "--output-format", "concise", "gen/a.py", "b.py")
    assert lint(*named)[1].count("TPL102") == 2
    assert lint("--force-exclude", *named)[1] == "b.py:1:1: TPL102 [*] `slow` is slow\n"
    assert lint("--force-exclude", "--show-files", *named)[1] == "b.py\n"
    assert lint("--force-exclude", "--extend-exclude", "gen", "gen")[2] == "warning: gen is excluded\n"
    write("docs/a.txt", "")
    for shows in ((), ("--show-files",)):
        paths = (*shows, "--extend-exclude", "gen", "gen/a.py", "gen", "docs")
        told = "warning: gen/a.py, gen are excluded\nwarning: there are no Python files in docs\n"
        assert lint("--force-exclude", *paths)[2] == told
    write("torchperf-lint.toml", "force-exclude = true")
    assert lint(*named)[1] == "b.py:1:1: TPL102 [*] `slow` is slow\n"
    feed(monkeypatch, b"slow\n")
    options = ("--extend-exclude", "gen", "-q", "--fix", "--stdin-filename", "gen/a.py")
    assert lint(*options) == (0, "slow\n", "")


# Watching


def line_of(stream: IO[str] | None) -> str:
    """The next line that a process prints, within a minute."""
    assert stream is not None
    ready, _, _ = select.select([stream], [], [], 60)
    assert ready, "it prints nothing"
    return stream.readline()


@pytest.mark.skipif(os.name == "nt", reason="an interrupt is sent by its signal")
def test_watching_checks_again_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n", encoding="utf-8")
    options = ["--watch", "--isolated", "--output-format", "concise"]
    process = subprocess.Popen(
        [sys.executable, "-m", "torchperf_lint", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.stdout, process.stderr
    try:
        assert line_of(out) == "No findings.\n"
        assert line_of(err) == WATCHING
        (tmp_path / "notes.md").write_text("no code", encoding="utf-8")
        (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
        assert line_of(out).startswith(f"train.py:{FOUND_AT}: TPL102 ")
        assert line_of(err) == WATCHING
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()


def test_watching_sees_configurations_and_exclusions(tmp_path: Path) -> None:
    """Also those beyond the folders that are watched: above them, named, or what another one is based on."""
    project, away = tmp_path / "project", tmp_path / "away"
    for folder in (project / "code", away, project / ".git"):
        folder.mkdir(parents=True)
    (project / "code" / "train.py").write_text(LOOP, encoding="utf-8")
    (away / "base").write_text("", encoding="utf-8")
    (away / "lint").write_text(f"extend = {json.dumps(str(away / 'base'))}\n", encoding="utf-8")
    found = f"code/train.py:{FOUND_AT}: TPL102 "

    def said_of(options: list[str], changes: list[tuple[Path, str]]) -> list[str]:
        """What the rounds print: one at the beginning, and one after each change."""
        out, told = tmp_path / "out", []
        with out.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "torchperf_lint", "--watch", "--output-format", "concise", *options, "code"],
                cwd=project,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            for path, text in [*changes, (tmp_path, "")]:
                until = time.monotonic() + 60
                while len(rounds := out.read_text(encoding="utf-8").split(WATCHING)) != len(told) + 2:
                    assert time.monotonic() < until, rounds
                    assert process.poll() is None
                    time.sleep(0.02)
                told.append(rounds[len(told)])
                if path != tmp_path:
                    (tmp_path / "new").write_text(text, encoding="utf-8")
                    (tmp_path / "new").replace(path)
        finally:
            process.kill()
            process.wait()
        return told

    silent = "ignore = ['TPL1']\n"
    named = said_of(["--config", str(away / "lint")], [(away / "base", silent), (away / "lint", "# nothing\n")])
    assert [found in each for each in named] == [True, False, True]
    own, ignored = project / "torchperf-lint.toml", project / ".gitignore"
    changes = [
        (own, silent),
        (own, ""),
        (ignored, "train.py\n"),
        (ignored, ""),
        (project / "code" / ".gitignore", "*\n"),
    ]
    assert [found in each for each in said_of([], changes)] == [True, False, True, False, True, False]


@pytest.mark.parametrize("beside", ["--fix", "--fix-only", "--diff", "--add-noqa", "--show-files", "-"])
def test_what_cannot_be_watched(lint, beside: str) -> None:  # noqa: F811
    status, out, err = lint("-w", beside)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "--watch prints what is found in files" in err


def test_watching_needs_its_library_and_a_folder(lint, monkeypatch) -> None:  # noqa: F811
    assert lint("--watch", "gone/a.py")[::2] == (2, "torchperf-lint: error: gone is no folder that can be watched\n")
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    told = "torchperf-lint: error: --watch needs watchfiles: pip install 'torchperf-lint[watch]'\n"
    assert lint("--watch") == (2, "", told)
