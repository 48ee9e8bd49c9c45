"""Files of our own beside pyproject.toml, the options that win over them, and what a run shows of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from git_project import begun, committed
from test_baseline import places
from test_cli import Faced, feed, lint, write  # noqa: F401
from torchperf_lint import config
from torchperf_lint.config_keys import KEYS
from torchperf_lint.engine.findings import Severity
from torchperf_lint.options import parsed, settings_for
from torchperf_lint.shown import as_toml
from word_rules import word_rules  # noqa: F401

TABLE = "[tool.torchperf-lint]\n"


def reason(path: str = ".", named: str | None = None) -> str:
    with pytest.raises(config.BadConfig) as caught:
        config.load(path, named)
    return str(caught.value.failure)


def test_the_nearest_folder_counts_and_in_it_the_most_special_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pyproject.toml", TABLE + 'hot-functions = ["outer"]\n')
    write("sub/pyproject.toml", TABLE + 'hot-functions = ["project"]\n')
    assert config.load("sub/deep").hot_functions == ("project",)
    write("sub/torchperf-lint.toml", 'hot-functions = ["own"]\n')
    assert config.load("sub/deep").hot_functions == ("own",)
    hidden = write("sub/.torchperf-lint.toml", 'hot-functions = ["hidden"]\n')
    settings = config.load("sub/deep")
    assert (settings.hot_functions, settings.source) == (("hidden",), str(hidden.resolve()))
    assert settings.root == str(tmp_path / "sub")
    assert config.load(".").hot_functions == ("outer",)


def test_a_file_of_our_own_counts_even_if_it_is_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pyproject.toml", TABLE + 'hot-functions = ["outer"]\n')
    write("sub/torchperf-lint.toml", "# nothing\n")
    assert config.load("sub").hot_functions == ()


@pytest.mark.parametrize("name", config.OWN_FILES)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TABLE, "has a table [tool]; in a file of our own the keys stand at the top, without one"),
        ("[torchperf-lint]\n", "has a table [torchperf-lint]; in a file of our own"),
        ("selct = []\n", "has no key `selct`; the nearest is `select`"),
        ("[foo]\n", "has no key `foo`; `torchperf-lint --isolated --show-settings` lists them"),
        ("exclude = 3\n", "`exclude`: must be a list of strings, not a number"),
        ("select = [\n", "is not TOML: "),
        ("baseline = ''\n", "`baseline`: names no file"),
        ("baseline = 3\n", "`baseline`: must be a string, not a number"),
        ("fail-on = 'fatal'\n", "`fail-on`: `fatal` is not `error`, `warning` or `note`"),
        ("min-severity = 3\n", "`min-severity`: `3` is not `error`, `warning` or `note`"),
    ],
)
def test_a_mistake_in_it_is_one_line(tmp_path, monkeypatch, name, text, told):
    monkeypatch.chdir(tmp_path)
    path = write(name, text).resolve()
    assert told in reason()
    assert reason().startswith(f"{path}:")
    assert "\n" not in reason()


def test_a_named_file_may_have_either_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("lint.toml", 'hot-functions = ["top"]\n')
    assert config.load(".", "lint.toml").hot_functions == ("top",)
    write("lint.toml", TABLE + 'hot-functions = ["table"]\n')
    assert config.load(".", "lint.toml").hot_functions == ("table",)
    write("lint.toml", "[tool.other]\n")
    assert reason(named="lint.toml") == "lint.toml: error: there is no table [tool.torchperf-lint] in it"
    write("sub/pyproject.toml", "[project]\n")
    assert "there is no table" in reason(named="sub/pyproject.toml")
    write("lint.toml", "hot-function = []\n")
    assert reason(named="lint.toml") == "lint.toml: error: has no key `hot-function`; the nearest is `hot-functions`"


# -- options that win over it -----------------------------------------------------------------------------------------


def settings(*arguments: str) -> config.Settings:
    return settings_for(parsed(arguments))


def test_options_replace_or_extend_what_the_file_says(word_rules, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    write(
        "torchperf-lint.toml",
        'exclude = ["a"]\nextend-exclude = ["b"]\nmin-severity = "warning"\nfail-on = "warning"\nbaseline = "k.json"\n'
        '[per-file-ignores]\n"t/*" = ["TPL1"]\n',
    )
    assert settings().baseline == str(tmp_path / "k.json")
    assert settings("--baseline", "o.json").baseline == "o.json"
    assert settings("--no-baseline").baseline is None
    assert settings("--exclude", "c,d").exclude == ("c", "d")
    assert settings("--exclude", "c").extend_exclude == ("b",)
    both = settings("--extend-exclude", "c", "--extend-exclude", "d,e")
    assert (both.exclude, both.extend_exclude) == (("a",), ("b", "c", "d", "e"))
    assert settings().per_file_ignores == (("t/*", ("TPL1",)),)
    given = ("u/*:TPL1,u/*:TPL2,v.py:ALL",)
    pairs = (("u/*", ("TPL1", "TPL2")), ("v.py", ("ALL",)))
    assert settings("--per-file-ignores", *given).per_file_ignores == pairs
    assert settings("--extend-per-file-ignores", *given).per_file_ignores == (("t/*", ("TPL1",)), *pairs)
    assert (settings().min_severity, settings().fail_on) == (Severity.WARNING, Severity.WARNING)
    severe = settings("--min-severity", "error", "--fail-on", "note")
    assert (severe.min_severity, severe.fail_on) == (Severity.ERROR, Severity.NOTE)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--per-file-ignores", "a.py"], "`a.py` is not GLOB:RULE, such as tests/**:TPL105"),
        (["--per-file-ignores", ":TPL1"], "`:TPL1` is not GLOB:RULE"),
        (["--per-file-ignores", "!a.py:TPL1"], "`!a.py` takes no file in"),
        (["--per-file-ignores", "[:TPL1"], "`[` is not a glob as in a .gitignore"),
        (["--extend-per-file-ignores", "a.py:TPL9"], "no rule matches the selector `TPL9`"),
        (["--extend-exclude", "["], "argument --extend-exclude: `[` is not a glob as in a .gitignore"),
        (["--fail-on", "fatal"], "argument --fail-on: `fatal` is not `error`, `warning` or `note`"),
        (["--min-severity", ""], "argument --min-severity: `` is not `error`, `warning` or `note`"),
        (["--show-files", "-"], "--show-files is for files"),
        (["--add-noqa", "-o", "x"], "--add-noqa prints no report: it cannot stand beside --output-file"),
        (["--baseline", "k", "--write-baseline", "-o", "x"], "--write-baseline prints no report"),
        ([""], "argument PATH: no file or folder is named"),
        (["a.py", "", "-q"], "argument PATH: no file or folder is named"),
    ],
)
def test_options_that_cannot_be_met_are_one_line(lint, arguments, told):  # noqa: F811
    status, out, err = lint(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert told in err


def test_ignores_and_exclusions_of_the_command_line_count(lint):  # noqa: F811
    write("a.py", "slow\nrisky\n")
    write("t/b.py", "slow\nrisky\n")
    write("build/c.py", "slow\n")
    assert places(lint, "--per-file-ignores", "t/:TPL1") == ["a.py:1", "a.py:2", "t/b.py:2"]
    assert places(lint, "--extend-exclude", "t") == ["a.py:1", "a.py:2"]
    assert places(lint, "--exclude", "t") == ["a.py:1", "a.py:2", "build/c.py:1"]
    assert lint("--extend-exclude", "t", "--show-files") == (0, "a.py\n", "")


# -- severities and the exit status -----------------------------------------------------------------------------------

ALL = ("--select", "ALL")


def test_only_findings_of_some_severity_are_reported(lint):  # noqa: F811
    write("a.py", "slow\nrisky\nquiet\n")
    assert places(lint, *ALL) == ["a.py:1", "a.py:2", "a.py:3"]
    assert places(lint, *ALL, "--min-severity", "note") == ["a.py:1", "a.py:2", "a.py:3"]
    assert places(lint, *ALL, "--min-severity", "warning") == ["a.py:1", "a.py:2"]
    assert places(lint, *ALL, "--min-severity", "error") == ["a.py:1"]
    assert lint(*ALL, "--min-severity", "error", "--ignore", "TPL1") == (0, "No findings.\n", "")
    write("torchperf-lint.toml", 'min-severity = "error"\n')
    assert places(lint) == ["a.py:1"]


def test_milder_findings_are_not_fixed_either(lint, monkeypatch):  # noqa: F811
    path = write("a.py", "slow\nrisky\n")
    assert lint("--min-severity", "error", "--fix", "--unsafe-fixes", "-q") == (0, "", "")
    assert path.read_text() == "fast\nrisky\n"
    feed(monkeypatch, b"risky\n")
    assert lint("-", "--min-severity", "error", "--fix", "--unsafe-fixes", "-q") == (0, "risky\n", "")


def test_only_findings_of_some_severity_make_the_run_fail(lint):  # noqa: F811
    write("a.py", "risky\nquiet\n")
    for level, status in (("error", 0), ("warning", 1), ("note", 1)):
        assert lint(*ALL, "--fail-on", level)[0] == status
        assert places(lint, *ALL, "--fail-on", level) == ["a.py:1", "a.py:2"]
    assert lint("--select", "TPL4", "--fail-on", "warning")[0] == 0
    assert lint(*ALL, "--fail-on", "warning", "--exit-zero")[0] == 0
    write("torchperf-lint.toml", 'fail-on = "error"\n')
    assert lint()[0] == 0
    assert lint("--fail-on", "warning")[0] == 1
    write("broken.py", "(\n")
    assert lint("-q")[0] == 2


def test_a_fix_can_make_the_run_fail(lint):  # noqa: F811
    for options, status in (
        ([], 0),
        (["--exit-non-zero-on-fix"], 1),
        (["--exit-non-zero-on-fix", "--exit-zero"], 0),
        (["--exit-non-zero-on-fix", "--fail-on", "error"], 1),
    ):
        write("a.py", "slow\n")
        assert lint("--fix", "-q", *options) == (status, "", "")
    assert lint("--fix", "-q", "--exit-non-zero-on-fix") == (0, "", ""), "nothing is left to fix"
    write("b.py", "risky\n")
    assert lint("-q", "--exit-non-zero-on-fix", "--fail-on", "error")[0] == 0, "nothing was fixed"


# -- what a run shows -------------------------------------------------------------------------------------------------

EVERYTHING = """\
select = ["TPL1"]
ignore = ["risky-word"]
extend-select = ["TPL401"]
exclude = ["build/", "a \\"b\\"\\\\\\t\\u007f\\U0001F600"]
extend-exclude = ["old/"]
target-torch = "2.4"
target-torchmetrics = "1.6.1"
hot-functions = ["step", "Agent.learn"]
loader-names = ["feed"]
min-confidence = "proven"
min-severity = "warning"
fail-on = "error"
baseline = "known.json"
per-file-ignores = { "tests/**" = ["TPL1"], "é \\n" = ["ALL"] }
"""


@pytest.mark.parametrize("text", ["", EVERYTHING])
def test_settings_are_shown_as_a_file_that_has_the_same_effect(lint, tmp_path, text):  # noqa: F811
    write("torchperf-lint.toml", text)
    write("known.json", '{"version": 1, "findings": {}}')
    status, out, err = lint("--show-settings")
    assert (status, err) == (0, "")
    assert out.splitlines()[:2] == [f"# from: {tmp_path}/torchperf-lint.toml", f"# globs are seen from: {tmp_path}"]
    assert {line.lstrip("# [").split(" ")[0].rstrip(":]") for line in out.splitlines()} >= KEYS.keys() - {
        "per-file-ignores"
    }
    before = config.load(".")
    write("torchperf-lint.toml", out)
    after = config.load(".")
    assert after._replace(exclude=before.exclude) == before
    assert list(as_toml(after)) == out.splitlines()
    assert ("# these rules run: TPL102, TPL401" if text else "# these rules run: TPL102, TPL201") in out


def test_options_are_shown_as_settings(lint):  # noqa: F811
    write("a.py", "slow(\n")
    _, out, _ = lint("--show-settings", "--select", "TPL2", "--fail-on", "error", "--extend-exclude", "x", "--isolated")
    assert "# from: no configuration file" in out
    for line in ('select = ["TPL2"]', 'fail-on = "error"', 'extend-exclude = ["x"]', "# these rules run: TPL201"):
        assert line in out.splitlines()


@pytest.mark.parametrize(
    "options", [["absent.py"], ["no.txt"], ["--baseline", "absent.json"], ["--changed-since", "absent"]]
)
def test_settings_of_a_run_that_could_not_begin_are_an_error(lint, options):  # noqa: F811
    begun()
    write("no.txt", "")
    committed()
    status, out, err = lint("--show-settings", *options)
    assert (status, len(err.splitlines())) == (2, 1)
    assert err == lint(*options)[2]
    assert out.startswith("# from: "), "they may say what is wrong"


def test_what_is_shown_may_be_written_into_a_file(lint, tmp_path):  # noqa: F811
    write("a.py", "slow\n")
    _, settings, _ = lint("--show-settings")
    assert lint("--show-settings", "-o", "new/settings.toml") == (0, "", "")
    assert Path("new/settings.toml").read_text() == settings
    assert lint("--show-files", "-o", "files.txt") == (0, "", "")
    assert Path("files.txt").read_text() == "a.py\n"
    told = "torchperf-lint: error: the report cannot be written to a.py/files.txt: Not a directory\n"
    assert lint("--show-files", "-o", "a.py/files.txt") == (2, "", told)


def test_files_are_shown_and_none_is_linted(lint):  # noqa: F811
    begun()
    write(".gitignore", "ignored.py\n")
    for name in ("b.py", "a/x.py", "ignored.py", "build/c.py", "no.txt"):
        write(name, "slow(\n")
    assert lint("--show-files") == (0, "a/x.py\nb.py\n", "")
    assert lint("--show-files", "ignored.py", "a") == (0, "a/x.py\nignored.py\n", "")
    committed()
    write("b.py", "slow\n")
    assert lint("--show-files", "--changed-since", "HEAD")[1] == "b.py\n" + ""
    status, out, err = lint("--show-files", "a", "absent.py", "no.txt")
    assert (status, out, len(err.splitlines())) == (2, "a/x.py\n", 2)
    Path("empty").mkdir()
    assert lint("--show-files", "empty") == (0, "", "warning: there are no Python files in empty\n")
