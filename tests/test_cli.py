"""The command line: options, output, exit status; in-process over the rules about words, and as a whole process."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchperf_lint import __version__, cli
from torchperf_lint.engine import registry
from training_loop import FOUND_AT, LOOP, SLOW_LINE
from word_rules import RULES, forget_rules, word_rules  # noqa: F401


class Faced:
    """What the command line has printed, and its exit status."""

    def __init__(self, capfd) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(arguments)
        except SystemExit as stopped:
            status = stopped.code
        return (status, *self._capfd.readouterr())


@pytest.fixture
def lint(word_rules, capfd, monkeypatch, tmp_path):  # noqa: F811
    """The command line in an empty folder, with the rules about words."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Faced(capfd)


def write(path: str, text: str | bytes) -> Path:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode() if isinstance(text, str) else text)
    return place


def feed(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_findings_are_printed_counted_and_told_by_the_status(lint):
    write("a.py", "x = slow\n")
    status, out, err = lint()
    assert (status, err) == (1, "")
    assert out.splitlines() == [
        "a.py:1:5: TPL102 [*] `slow` is slow",
        "  |",
        "1 | x = slow",
        "  |     ^^^^",
        "  = severity: error",
        "  = because: a.py:1: the file begins here",
        "  = fix: say it otherwise (safe, --fix applies it)",
        "  | - x = slow",
        "  | + x = fast",
        "",
        "Found 1 finding.",
        "[*] 1 fixable with `--fix`.",
    ]


def test_output_may_be_redirected_by_a_caller(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = cli.main(["--isolated", "--output-format", "concise", "a.py"])
    assert status == 1
    assert out.getvalue().startswith("a.py:")


def test_nothing_found_is_status_0(lint):
    write("a.py", "x = 1\n")
    assert lint("a.py") == (0, "No findings.\n", "")
    assert lint("check", "a.py", "--quiet") == (0, "", "")


@pytest.mark.parametrize("form", ["text", "grouped", "concise", "summary"])
def test_the_sum_names_the_files_that_could_not_be_checked(lint, form):
    write("broken.py", "x = (\n")
    assert "No findings; 1 file could not be checked.\n" in lint("--output-format", form)[1]
    write("gone.py", "y = (\n")
    write("a.py", "x = slow\n" * 30)
    assert "Found 30 findings; 2 files could not be checked.\n" in lint("--output-format", form)[1]


def test_a_report_may_be_sent_to_standard_output(lint, tmp_path):
    write("a.py", "x = slow\n")
    plain = lint("--output-format", "json")
    assert lint("--output-format", "json", "-o", "-") == lint("--output-format", "json", "--output-file=-") == plain
    assert not (tmp_path / "-").exists()
    lint("-o", "new/folder/report.txt", "-q")
    assert (tmp_path / "new" / "folder" / "report.txt").is_file()


def test_a_report_below_a_file_is_no_folder(lint):
    write("a.py", "x = slow\n")
    told = "torchperf-lint: error: the report cannot be written to a.py/x.txt: Not a directory\n"
    assert lint("-o", "a.py/x.txt") == (2, "", told)


def test_a_folder_without_python_is_told(lint):
    assert lint() == (0, "No findings.\n", "warning: there are no Python files in .\n")


def test_findings_come_in_the_order_of_paths(lint):
    for name in ("b.py", "a/z.py", "a/y.py"):
        write(name, "slow\n")
    for order in ([], ["b.py", "a"], ["a", "b.py"]):
        _, out, _ = lint("--output-format", "concise", "-q", *order)
        assert [line.split(":")[0] for line in out.splitlines()] == ["a/y.py", "a/z.py", "b.py"]


def test_fix_writes_the_safe_fixes_only(lint):
    path = write("a.py", "slow\nrisky\n")
    status, out, _ = lint("--fix", "--output-format", "concise")
    assert path.read_text() == "fast\nrisky\n"
    assert status == 1
    assert out.splitlines() == [
        "a.py:2:1: TPL201 `risky` is risky",
        "Fixed 1 finding in 1 file:",
        "  a.py",
        "    1 TPL102 slow-word",
        "Found 2 findings (1 fixed, 1 remaining).",
        "1 fixable with `--fix --unsafe-fixes`.",
    ]


def test_fix_with_unsafe_fixes_writes_all(lint):
    path = write("a.py", "slow\nrisky\n")
    status, out, err = lint("--fix", "--unsafe-fixes")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "Fixed 2 findings in 1 file:",
        "  a.py",
        "    1 TPL102 slow-word",
        "    1 TPL201 risky-word, assuming that nobody minds the risk",
        "Found 2 findings (2 fixed, 0 remaining).",
    ]
    assert path.read_text() == "fast\ndaring\n"


def test_what_was_fixed_is_counted_by_file_and_rule(lint):
    write("a.py", "slow; slow\nrisky\n")
    write("b/c.py", "slow\n")
    write("d.py", "quiet\n")
    _, out, _ = lint("--fix", "--unsafe-fixes", "--output-format", "concise")
    assert out.splitlines()[:6] == [
        "Fixed 4 findings in 2 files:",
        "  a.py",
        "    2 TPL102 slow-word",
        "    1 TPL201 risky-word, assuming that nobody minds the risk",
        "  b/c.py",
        "    1 TPL102 slow-word",
    ]


@pytest.mark.parametrize("name", ["json", "json-lines", "sarif", "github", "gitlab", "junit", "checkstyle"])
def test_what_was_fixed_is_not_in_a_format_for_machines(lint, name):
    for options, told in (([], "Fixed 1 finding in 1 file:\n  a.py\n    1 TPL102 slow-word\n"), (["-q"], "")):
        write("a.py", "slow\nrisky\n")
        status, out, err = lint("--fix", "--output-format", name, *options)
        assert (status, err) == (1, told)
        assert "Fixed" not in out


def test_unsafe_fixes_alone_only_count_them_in(lint):
    path = write("a.py", "slow\nrisky\n")
    _, out, _ = lint("--output-format", "concise")
    assert out.splitlines()[2:] == ["Found 2 findings.", "[*] 1 fixable with `--fix` (1 more with `--unsafe-fixes`)."]
    _, out, _ = lint("--output-format", "concise", "--unsafe-fixes")
    assert out.splitlines()[1:] == [
        "a.py:2:1: TPL201 [*] `risky` is risky",
        "Found 2 findings.",
        "[*] 2 fixable with `--fix`.",
    ]
    assert path.read_text() == "slow\nrisky\n"


def test_diff_shows_and_does_not_write(lint):
    path = write("a.py", b"x\r\nslow\r\n")
    write("b.py", "risky\n")
    status, out, err = lint("--diff")
    assert (status, err) == (1, "Would fix 1 finding in 1 file:\n  a.py\n    1 TPL102 slow-word\n")
    assert out == "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x\r\n-slow\r\n+fast\r\n"
    assert path.read_bytes() == b"x\r\nslow\r\n"
    assert lint("--diff", "-q", "b.py") == (0, "", "")
    assert lint("--diff", "-q", "b.py", "--unsafe-fixes")[0] == 1
    assert lint("--diff", "--fix", "--exit-zero")[0] == 0
    assert path.read_bytes() == b"x\r\nslow\r\n"


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ([], ["TPL102", "TPL201"]),
        (["--select", "TPL4"], ["TPL401"]),
        (["--select", "quiet-word,TPL1"], ["TPL102", "TPL401"]),
        (["--select", "TPL1", "--select", "TPL2"], ["TPL102", "TPL201"]),
        (["--select", "ALL"], ["TPL102", "TPL201", "TPL401"]),
        (["--ignore", "TPL1"], ["TPL201"]),
        (["--extend-select", "TPL401"], ["TPL102", "TPL201", "TPL401"]),
        (["--isolated"], ["TPL102", "TPL201"]),
    ],
)
def test_selectors(lint, options, codes):
    write("a.py", "slow\nrisky\nquiet\n")
    _, out, _ = lint("--output-format", "concise", "-q", *options)
    assert [line.split()[1] for line in out.splitlines()] == codes


def test_configuration_counts_unless_isolated(lint):
    write("a.py", "slow\nrisky\n")
    write("tests/b.py", "slow\nrisky\n")
    write("gone/c.py", "slow\n")
    write(
        "pyproject.toml",
        '[tool.torchperf-lint]\nselect = ["TPL1", "TPL2"]\nextend-exclude = ["gone"]\n'
        'per-file-ignores = { "tests/" = ["TPL1"] }\n',
    )
    quiet = ("--output-format", "concise", "-q")
    places = [line.split()[0] + line.split()[1] for line in lint(*quiet)[1].splitlines()]
    assert places == ["a.py:1:1:TPL102", "a.py:2:1:TPL201", "tests/b.py:2:1:TPL201"]
    assert len(lint("--isolated", *quiet)[1].splitlines()) == 5
    assert len(lint("--isolated", "--exclude", "gone,tests", *quiet)[1].splitlines()) == 2
    lint("--fix", "-q", "--unsafe-fixes")
    assert Path("tests/b.py").read_text() == "slow\ndaring\n", "an ignored rule must not fix either"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["absent.py"], "absent.py: error: cannot be read: No such file or directory"),
        (["--select", "TPL9"], "torchperf-lint: error: no rule matches the selector `TPL9`"),
        (["--select", "tpl102"], "no rule matches the selector `tpl102`; did you mean `TPL102`?"),
        (["--select", "all"], "no rule matches the selector `all`; did you mean `ALL`?"),
        (["--select", ""], "argument --select: no rule is named"),
        (["--exclude", "a.py,["], "argument --exclude: `[` is not a glob as in a .gitignore"),
        (
            ["--isolated", "--config", "a.toml"],
            "--isolated reads no configuration file",
        ),
        (["--config", "absent.toml"], "absent.toml: error: cannot be read: No such file or directory"),
        (["-", "a.py"], "torchperf-lint: error: `-` cannot stand beside other paths"),
        (["a.py", "--stdin-filename", "a.py"], "--stdin-filename names what is read from standard input"),
        (["--target-torch", "new"], "`new` is not a version such as 2.13 or 1.6.2"),
        (["-j", "0"], "`0` is not a number of processes"),
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
    ],
)
def test_a_run_that_fails_says_so_and_is_status_2(lint, arguments, told):
    status, _, err = lint(*arguments)
    assert status == 2
    assert told in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("explian", "explain"),
        ("rule", "rules"),
        ("generate-shell-completon", "generate-shell-completion"),
        ("Verify", "verify"),
        ("help", "--help"),
        ("version", "--version"),
    ],
)
def test_a_word_that_is_like_a_command_is_told_with_the_command(lint, word, command):
    told = f"{word}: error: cannot be read: No such file or directory; did you mean `{command}`?\n"
    assert lint(word, "-q") == (2, "", told)
    assert lint(word, "--show-files")[2] == told
    write(word, "")
    assert "did you mean" not in lint(word)[2]


@pytest.mark.parametrize("arguments", [["source"], ["train.py"], ["./explian"], ["explian/a.py"], ["-q", "explian"]])
def test_other_words_are_paths(lint, arguments):
    status, _, err = lint(*arguments)
    assert status == 2
    assert "did you mean" not in err


def test_findings_beside_a_failure_are_still_status_2(lint):
    write("a.py", "slow\n")
    write("broken.py", "slow = (\n")
    status, out, err = lint("--exit-zero", "--output-format", "concise")
    assert status == 2
    assert out.startswith("a.py:1:1: TPL102")
    assert err.startswith("broken.py:1:8: error: syntax error: ")
    assert len(err.splitlines()) == 1


def test_a_broken_configuration_is_one_line(lint, tmp_path):
    write("pyproject.toml", "[tool.torchperf-lint]\nselect = [\n")
    status, out, err = lint()
    assert (status, out) == (2, "")
    assert err.startswith(f"{tmp_path}/pyproject.toml:")
    assert len(err.splitlines()) == 1


def test_the_configuration_does_not_depend_on_the_order_of_paths(lint):
    for name in ("one/a.py", "one/two/b.py", "other/c.py"):
        write(name, "slow\n")
    write("one/pyproject.toml", '[tool.torchperf-lint]\nignore = ["TPL1"]\n')
    write("one/two/pyproject.toml", '[tool.torchperf-lint]\nselect = ["TPL1"]\n')
    for paths, status in (
        (["one/two"], 1),
        (["one/two", "one/two/b.py"], 1),
        (["one/a.py"], 0),
        (["one/two", "one/a.py"], 1),
        (["one", "other"], 1),
    ):
        assert lint("-q", *paths)[0] == status
        assert lint("-q", *reversed(paths))[0] == status


def test_exit_zero_forgives_findings(lint):
    write("a.py", "slow\n")
    assert lint("--exit-zero", "-q")[0] == 0


def test_standard_input_is_checked(lint, monkeypatch):
    feed(monkeypatch, b"x = slow\n")
    status, out, _ = lint("-", "--output-format", "concise", "-q")
    assert (status, out) == (1, "-:1:5: TPL102 [*] `slow` is slow\n")
    write("pyproject.toml", '[tool.torchperf-lint]\nper-file-ignores = { "tests/" = ["TPL1"] }\n')
    for path, (name, status) in itertools.product((["-"], []), {"tests/b.py": 0, "b.py": 1}.items()):
        feed(monkeypatch, b"x = slow\n")
        assert lint(*path, "--stdin-filename", name, "-q")[0] == status


def test_standard_input_is_fixed_to_standard_output(lint, monkeypatch):
    feed(monkeypatch, b"slow\r\nrisky")
    status, out, err = lint("-", "--fix", "--stdin-filename", "b.py", "--output-format", "concise")
    assert (status, out) == (1, "fast\r\nrisky")
    assert err.splitlines()[0] == "b.py:2:1: TPL201 `risky` is risky"
    assert not Path("b.py").exists()
    feed(monkeypatch, b"slow = (\n")
    status, out, err = lint("-", "--fix")
    assert (status, out) == (2, "slow = (\n")
    feed(monkeypatch, b"slow\n")
    assert lint("-", "--diff", "-q") == (1, "--- -\n+++ -\n@@ -1 +1 @@\n-slow\n+fast\n", "")


@pytest.mark.parametrize("options", [[], ["--fix"], ["--diff"], ["--output-format", "json"], ["--exit-zero"]])
def test_a_broken_notebook_is_status_2(lint, monkeypatch, options):
    data = b'{"cells": ["slow"]}\n'
    path = write("x.ipynb", data)
    write("a.py", "fast\n")
    told = "x.ipynb: error: not checked: it is no notebook: cell 1 is not an object\n"
    status, _, err = lint("x.ipynb", "a.py", "-q", *options)
    assert (status, err, path.read_bytes()) == (2, told, data)
    feed(monkeypatch, data)
    status, out, err = lint("-", "--stdin-filename", "x.ipynb", "-q", *options)
    assert (status, err) == (2, told)
    if "json" in options:
        assert [each["code"] for each in json.loads(out)] == ["TPL000"]
    else:
        assert out == (data.decode() if "--fix" in options else "")
    assert lint("-q")[0] == 2


def test_standard_input_of_any_other_name_is_linted(lint, monkeypatch):
    feed(monkeypatch, b"slow\n")
    assert lint("-", "--stdin-filename", "x.md", "-q", "--output-format", "concise")[:2] == (
        1,
        "x.md:1:1: TPL102 [*] `slow` is slow\n",
    )


def test_json_is_only_json(lint):
    write("a.py", "slow\nquiet\n")
    status, out, err = lint("--output-format", "json")
    assert (status, err) == (1, "")
    (found,) = json.loads(out)
    assert (found["code"], found["name"], found["filename"]) == ("TPL102", "slow-word", "a.py")
    assert found["fix"]["edits"][0]["content"] == "fast"
    assert json.loads(lint("--output-format", "json", "--select", "TPL4")[1])[0]["fix"] is None
    assert json.loads(lint("--output-format", "json", "--statistics")[1]) == [
        {"code": "TPL102", "name": "slow-word", "count": 1, "fixable": 1, "severity": "error", "cost": None}
    ]
    lint("--fix")
    assert lint("--output-format", "json") == (0, "[]\n", "")


def test_statistics_stand_instead_of_the_findings(lint):
    write("a.py", "slow\nslow\nrisky\n")
    status, out, _ = lint("--statistics")
    assert status == 1
    assert out.splitlines()[:2] == ["2  TPL102  [*]  slow-word", "1  TPL201  [ ]  risky-word"]


HOSTILE = ["::error file=x::.py", "  ::warning::x.py", "##[error]x.py", "##vso[task.complete]x.py", "a\n::error::x.py"]


def is_command(line: str) -> bool:
    """Whether a CI system may take an output line for a command to itself."""
    return line.lstrip().startswith(("::", "##")) or "##vso[" in line


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_name_begins_a_command(lint, name):
    try:
        write(name, "slow\nx = '##vso[a]\x1b', slow\n")
    except OSError:
        pytest.skip("this system has no such file names")
    write("broken/" + name, "slow = (\n")
    formats = [["--output-format", "concise"], [], ["--diff"], ["--statistics"], ["--fix"]]
    for options in formats:
        _, out, err = lint(*options, name, "broken", f"absent{name}", name.replace("x", "y"), "--no-color")
        if "--diff" in options:  # which is for `patch`: its lines begin with its own signs
            out = "\n".join(line for line in out.splitlines() if line[:1] not in "+- @")
        assert not [line for line in (out + err).splitlines() if is_command(line)], options
    _, _, err = lint(f"--{name}")
    assert not [line for line in err.splitlines() if is_command(line)]


def test_a_path_that_looks_like_a_command_is_shown_as_that_of_a_file(lint):
    write("::error::.py", "slow\n")
    write("::broken.py", "slow = (\n")
    _, out, err = lint("-q", "--output-format", "concise")
    assert out == "./::error::.py:1:1: TPL102 [*] `slow` is slow\n"
    assert err.startswith("./::broken.py:1:8: error: ")
    assert json.loads(lint("--output-format", "json")[1])[0]["filename"] == "::error::.py"


def test_a_diff_cannot_steer_a_terminal_and_is_exact_elsewhere(lint, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    write("a.py", b"x = '\x1b]0;owned\x07', slow\t# \x9b\r\n".replace(b"\x9b", "\x9b".encode()))
    exact = "x = '\x1b]0;owned\x07', %s\t# \x9b\r\n"
    _, out, _ = lint("--diff", "-q")
    assert out == "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-" + exact % "slow" + "+" + exact % "fast"
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    lint("--diff", "-q", "--no-color")
    shown = "x = '\ufffd]0;owned\ufffd', %s    # \ufffd\n"
    assert terminal.getvalue() == "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-" + shown % "slow" + "+" + shown % "fast"


@pytest.mark.skipif(os.name == "nt", reason="there are no such file names")
@pytest.mark.parametrize("name", ['a\n::error::\t"b\\.py', '"a.py', "a b/ c .py", "\udcff é.py", "naïve.py"])
@pytest.mark.parametrize("program", [["git", "apply", "-p0", "-"], ["patch", "-p0"]])
def test_a_diff_of_a_file_with_a_strange_name_can_be_applied(lint, tmp_path, name, program):
    if shutil.which(program[0]) is None:
        pytest.skip("it is not installed")
    path = write(name, "slow\n")
    out = lint("--diff", "-q")[1]
    assert len(out.splitlines()) == 5
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(program, cwd=tmp_path, env=clean, input=out.encode(), check=True)
    assert path.read_text() == "fast\n"


def test_colours_follow_the_options_and_the_environment(lint, monkeypatch):
    write("a.py", "slow\n")
    assert "\x1b" not in lint()[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31mTPL102" in lint()[1]
    assert "\x1b" not in lint("--no-color")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in lint()[1]


def test_the_targets_reach_the_run(lint, monkeypatch):
    write("a.py", "slow\n")
    gated = RULES[0]._replace(torch=">=2.0")
    monkeypatch.setattr(registry, "all_rules", lambda: (gated,))
    forget_rules()
    assert lint("--target-torch", "2.1", "-q")[0] == 1
    assert lint("--target-torch", "1.9", "-q")[0] == 0
    write("pyproject.toml", '[tool.torchperf-lint]\ntarget-torch = "1.13"\n')
    assert lint("-q")[0] == 0
    assert lint("-q", "--target-torch", "2.1")[0] == 1


def test_suppressions_count_and_idle_ones_are_told(lint):
    write("a.py", "slow  # noqa: TPL102\nx = 1  # noqa: TPL102\n")
    _, out, _ = lint("--output-format", "concise", "-q")
    assert [line.split()[:2] for line in out.splitlines()] == [["a.py:2:8:", "TPL001"]]
    assert lint("-q", "--ignore", "TPL001")[0] == 0


def test_a_folder_named_like_a_command_is_linted_by_its_path(lint):
    write("rules/a.py", "slow\n")
    assert lint("rules")[1].startswith("TPL102  slow-word")
    assert lint("./rules", "-q", "--output-format", "concise")[1].startswith("rules/a.py:1:1:")


def test_a_read_only_file_is_told_and_left(lint):
    path = write("a.py", "slow\n")
    path.chmod(0o444)
    status, _, err = lint("--fix")
    assert (status, err) == (2, "a.py: error: cannot be written: the file is read-only\n")
    assert path.read_text() == "slow\n"


def test_help_and_version(lint):
    status, out, _ = lint("--version")
    assert (status, out) == (0, f"torchperf-lint {__version__}\n")
    status, out, _ = lint("--help")
    assert status == 0
    assert "./rules" in out


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "torchperf_lint", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_the_whole_process_on_a_training_loop(tmp_path):
    train = tmp_path / "train.py"
    train.write_text(LOOP)
    done = run("--output-format", "concise", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(f"train.py:{FOUND_AT}: TPL102 [*] ")
    done = run("--fix", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("    1 TPL102 item-accumulation\nFound 1 finding (1 fixed, 0 remaining).\n")
    assert SLOW_LINE not in train.read_text()
    assert run("--diff", "--unsafe-fixes", cwd=tmp_path).returncode == 0
    assert run("absent.py", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("arguments", [["rules"], ["rules", "--output-format", "json"], ["-", "--fix"]])
def test_a_reader_that_goes_away_leaves_no_traceback(arguments):
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "torchperf_lint", *arguments],
            input=b"x = 1\n",
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr in (b"", b"No findings.\n")
    assert done.returncode == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [["rules"], ["explain", "TPL102"], ["train.py"], ["-", "--fix"]])
def test_output_that_cannot_be_written_is_one_line(tmp_path, arguments):
    (tmp_path / "train.py").write_text(LOOP)
    command = [sys.executable, "-m", "torchperf_lint", *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=buffered, input=LOOP.encode(), stdout=full, stderr=subprocess.PIPE, check=False
        )
        assert done.returncode == 2
        (line,) = [line for line in done.stderr.decode().splitlines() if "error" in line]
        assert line.startswith("torchperf-lint: error: the output cannot be written: ")
        worse = subprocess.run([*command, "absent.py"], cwd=tmp_path, env=buffered, stderr=full, check=False)
        assert worse.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_version_that_cannot_be_written_is_one_line():
    command = [sys.executable, "-m", "torchperf_lint", "--version"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=buffered, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("torchperf-lint: error: the output cannot be written: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="descriptors are closed in the child before it starts")
@pytest.mark.parametrize(
    ("closed", "arguments", "status", "told"),
    [
        (0, ["train.py", "-q"], 1, ""),
        (0, ["-"], 2, "-: error: cannot be read: standard input is closed\n"),
        (1, ["--version"], 0, ""),
        (1, ["train.py"], 1, ""),
        (1, ["absent.py"], 2, "absent.py: error: cannot be read: No such file or directory\n"),
        (2, ["absent.py"], 2, ""),
    ],
)
def test_closed_streams_do_no_harm(tmp_path, closed, arguments, status, told):
    (tmp_path / "train.py").write_text(LOOP)
    done = run(*arguments, cwd=tmp_path, preexec_fn=lambda: os.close(closed))
    assert (done.returncode, done.stderr) == (status, told)


def test_ctrl_c_leaves_no_traceback(lint, monkeypatch):
    class Interrupted(io.BytesIO):
        def read(self, size=-1):
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Interrupted()))
    assert lint("-") == (130, "", "")
