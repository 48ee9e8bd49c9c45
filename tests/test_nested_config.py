"""Configurations of folders: the one that is nearest to a file decides what is reported there."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchperf_lint
from test_cli import feed, lint, write  # noqa: F401
from torchperf_lint.server.options import Options
from word_rules import word_rules  # noqa: F401

TEXT = "slow, risky, quiet\n"


@pytest.fixture
def found(lint):  # noqa: F811
    """The codes that a run with these arguments finds, by file."""

    def found_by(*arguments: str) -> dict[str, list[str]]:
        _, out, err = lint("--output-format", "concise", "-q", *arguments)
        assert err == ""
        codes: dict[str, list[str]] = {}
        for line in out.splitlines():
            codes.setdefault(line.partition(":")[0], []).append(line.split()[1])
        return codes

    for path in ("a.py", "sub/b.py", "sub/deep/c.py", "other/d.py"):
        write(path, TEXT)
    return found_by


def test_the_nearest_configuration_decides_what_is_reported(found):
    write("pyproject.toml", "[tool.torchperf-lint]\nignore = ['TPL201']\n")
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    write("other/pyproject.toml", "[project]\nname = 'other'\n")
    for _ in range(2):  # the second time from the cache
        assert found() == {
            "a.py": ["TPL102"],
            "other/d.py": ["TPL102"],
            "sub/b.py": ["TPL401"],
            "sub/deep/c.py": ["TPL401"],
        }
        assert found("sub/deep/c.py", "a.py") == {"a.py": ["TPL102"], "sub/deep/c.py": ["TPL401"]}
    assert found("sub/deep") == {"sub/deep/c.py": ["TPL401"]}


def test_nothing_is_merged_but_by_extend(found):
    write("torchperf-lint.toml", "select = ['TPL4']\n")
    write("sub/torchperf-lint.toml", "")
    write("sub/deep/torchperf-lint.toml", "extend = '../../torchperf-lint.toml'\nextend-select = ['TPL102']\n")
    both = ["TPL102", "TPL201"]
    assert found() == {
        "a.py": ["TPL401"],
        "other/d.py": ["TPL401"],
        "sub/b.py": both,
        "sub/deep/c.py": ["TPL102", "TPL401"],
    }


@pytest.mark.parametrize("switch", [("--isolated",), ("--config", "lint.toml")])
def test_a_named_configuration_or_none_is_that_of_all_files(found, switch: tuple[str, ...]):
    write("lint.toml", "")
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    assert set(map(tuple, found(*switch).values())) == {("TPL102", "TPL201")}
    assert found("--config", "ignore = ['TPL102']")["sub/b.py"] == ["TPL401"], "a key is no file"


def test_options_win_over_each_of_them(found):
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    assert found("--select", "TPL2")["sub/b.py"] == ["TPL201"]
    assert found("--ignore", "TPL4", "--extend-select", "TPL102")["sub/b.py"] == ["TPL102"]


def test_globs_are_seen_from_the_folder_that_states_them(found):
    """Those of the command line from that of the run's configuration."""
    write("torchperf-lint.toml", "per-file-ignores = {'/sub/*.py' = ['ALL'], '/d.py' = ['ALL']}\n")
    write("sub/torchperf-lint.toml", "per-file-ignores = {'/b.py' = ['TPL201']}\n")
    both = ["TPL102", "TPL201"]
    plain = {"a.py": both, "other/d.py": both, "sub/b.py": ["TPL102"], "sub/deep/c.py": both}
    assert found() == plain
    extended = found("--extend-per-file-ignores", "/sub/deep/c.py:TPL102")
    assert extended == {**plain, "sub/deep/c.py": ["TPL201"]}
    assert found("--per-file-ignores", "/sub/b.py:TPL102") == {**plain, "sub/b.py": ["TPL201"]}


def test_fixes_confidence_and_unused_comments_are_those_of_the_file(found, lint):  # noqa: F811
    write("sub/torchperf-lint.toml", "unfixable = ['TPL102']\nmin-confidence = 'proven'\nignore = ['TPL001']\n")
    for path in ("a.py", "sub/b.py"):
        write(path, "slow\nx = 1  # noqa: TPL102\n")
    assert found("a.py", "sub/b.py") == {"a.py": ["TPL102", "TPL001"], "sub/b.py": ["TPL102"]}
    lint("--fix", "-q", "a.py", "sub/b.py")
    assert Path("a.py").read_text(encoding="utf-8").startswith("fast\n")
    assert Path("sub/b.py").read_text(encoding="utf-8").startswith("slow\n")


def test_versions_are_those_of_the_file(lint, monkeypatch):  # noqa: F811
    """Each in its own job, and each with its own stored results."""
    from torchperf_lint.engine import project
    from torchperf_lint.options import parsed, settings_for

    for path in ("a.py", "sub/b.py"):
        write(path, TEXT)
    write("sub/torchperf-lint.toml", "target-torch = '1.7'\n")
    told = []
    asked = project._asked
    monkeypatch.setattr(
        project, "_asked", lambda job: told.append((job.path, job.target.torch, asked(job))) or asked(job)
    )
    lint("-q")
    versions = {path: (version, name) for path, version, name in told}
    assert (versions["a.py"][0], versions["sub/b.py"][0]) == (None, (1, 7))
    assert versions["a.py"][1] != versions["sub/b.py"][1]
    assert settings_for(parsed(["--target-torch", "2.3"])).own("sub/b.py").target_torch == (2, 3)


def test_what_is_of_the_whole_run_is_of_the_configuration_above_all_files(found):
    write("sub/torchperf-lint.toml", "exclude = ['c.py']\nmin-severity = 'error'\n")
    assert found()["sub/b.py"] == found()["sub/deep/c.py"] == ["TPL102", "TPL201"]
    assert found("sub") == {"sub/b.py": ["TPL102"]}


def test_a_mistake_in_one_ends_the_run(lint):  # noqa: F811
    write("a.py", TEXT)
    write("sub/b.py", TEXT)
    path = write("sub/torchperf-lint.toml", "selct = []\n").resolve()
    for options in ([], ["--fix"], ["--min-severity", "error"]):
        status, out, err = lint(*options)
        assert (status, out) == (2, "")
        assert err == f"{path}: error: has no key `selct`; the nearest is `select`\n"
    assert Path("a.py").read_text(encoding="utf-8") == TEXT
    assert lint("a.py", "-q", "--exit-zero")[0] == 0
    with pytest.raises(ValueError, match="has no key `selct`"):
        torchperf_lint.lint(".", cache=False)


def test_a_baseline_knows_what_rules_run_in_each_folder(found, lint):  # noqa: F811
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    lint("--write-baseline", "--baseline", "known.json", "-q")
    assert found("--baseline", "known.json") == {}
    write("sub/torchperf-lint.toml", "select = ['TPL1']\n")
    status, _, err = lint("--baseline", "known.json")
    assert (status, err) == (1, ""), "a rule that does not run has no stale entries"


def test_a_text_has_the_configuration_of_its_name(found, monkeypatch):
    write("torchperf-lint.toml", "select = ['TPL2']\n")
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    for name, codes in (("sub/deep/new.py", ["TPL401"]), ("new.py", ["TPL201"])):
        feed(monkeypatch, TEXT.encode())
        assert found("--stdin-filename", name) == {name: codes}


def test_editors_and_programs_see_the_same(found):
    write("torchperf-lint.toml", "select = ['TPL2']\n")
    write("sub/torchperf-lint.toml", "select = ['TPL4']\n")
    codes = {path: [rule.code for rule in Options().settings(path).rules_for(path)] for path in ("a.py", "sub/b.py")}
    assert codes == {"a.py": ["TPL201"], "sub/b.py": ["TPL401"]}
    told = torchperf_lint.lint(["a.py", "sub/b.py"], sources={"sub/new.py": TEXT}, cache=False)
    assert [(each.path, each.code) for each in told] == [
        ("a.py", "TPL201"),
        ("sub/b.py", "TPL401"),
        ("sub/new.py", "TPL401"),
    ]
