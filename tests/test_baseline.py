"""The baseline: known findings are not reported, wherever their lines move; new, equal and stale ones are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test_cli import Faced, feed, lint, write  # noqa: F401
from torchperf_lint.adopt.baseline import Baseline, Judged, Stale, read
from torchperf_lint.engine.findings import Confidence, Diagnostic
from word_rules import word_rules  # noqa: F401

CONCISE = ("--output-format", "concise", "-q")


def places(lint: Faced, *options: str) -> list[str]:  # noqa: F811
    """Where findings are reported, as path:row."""
    _, out, _ = lint(*CONCISE, *options)
    return [":".join(line.split(":")[:2]) for line in out.splitlines()]


def known(lint: Faced, *options: str) -> None:  # noqa: F811
    """Write the baseline known.json."""
    assert lint("--baseline", "known.json", "--write-baseline", *options)[0] == 0


def test_known_findings_are_not_reported_wherever_their_lines_move(lint):  # noqa: F811
    path = write("a.py", "x = slow\ny = risky\n")
    assert lint("--baseline", "known.json", "--write-baseline") == (0, "", "Wrote 2 findings to known.json.\n")
    assert lint("--baseline", "known.json") == (0, "No findings besides 2 of the baseline.\n", "")
    path.write_text("import os\n\nif os:\n    y = risky\n\n\nx = slow\n")
    assert lint("--baseline", "known.json") == (0, "No findings besides 2 of the baseline.\n", "")
    path.write_text("x = slow\nslow()\ny = risky\n")
    status, out, err = lint("--baseline", "known.json", "--output-format", "concise")
    assert (status, err) == (1, "")
    assert out.splitlines()[0].startswith("a.py:2:1: TPL102")
    assert out.splitlines()[1] == "Found 1 finding besides 2 of the baseline."


def test_equal_findings_are_counted(lint):  # noqa: F811
    path = write("a.py", "x = slow\nx = slow\n")
    known(lint)
    path.write_text("x = slow\nx = slow\nx = slow\n")
    assert places(lint, "--baseline", "known.json") == ["a.py:3"]
    path.write_text("x = slow\n")
    assert places(lint, "--baseline", "known.json") == []
    assert lint("--baseline", "known.json")[2] == (
        "warning: known.json has 1 entry that matches no finding any more (a.py: TPL102); "
        "`--write-baseline` takes them out\n"
    )


def test_the_same_line_in_another_file_is_new(lint):  # noqa: F811
    write("a.py", "x = slow\n")
    known(lint)
    write("b.py", "x = slow\n")
    assert places(lint, "--baseline", "known.json") == ["b.py:1"]


def test_stale_entries_are_told_and_taken_out(lint):  # noqa: F811
    write("a.py", "x = slow\n")
    write("b.py", "x = slow\ny = risky\n")
    write("c.py", "x = slow\n")
    known(lint)
    write("a.py", "x = 1\n")
    Path("c.py").unlink()
    status, out, err = lint("--baseline", "known.json")
    assert (status, out) == (0, "No findings besides 2 of the baseline.\n")
    assert "known.json has 2 entries that match no finding any more (a.py: TPL102; c.py: TPL102)" in err
    assert lint("--baseline", "known.json", "-q")[2] == ""
    known(lint)
    assert list(json.loads(Path("known.json").read_text())["findings"]) == ["b.py"]
    assert lint("--baseline", "known.json")[2] == ""


@pytest.mark.parametrize(
    "options", [["--select", "TPL2"], ["b.py"], ["--ignore", "TPL102"], ["--min-severity", "error"]]
)
def test_what_a_run_does_not_look_for_is_not_stale(lint, options):  # noqa: F811
    write("a.py", "x = slow\ny = risky\n")
    write("b.py", "y = risky\n")
    known(lint)
    assert lint("--baseline", "known.json", *options)[2] == ""


def test_a_likely_finding_is_not_missed_by_a_run_for_proven_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("a.py", "x\n")
    found = Diagnostic("a.py", 1, 1, 1, 2, "TPL102", "n", "error", "m", (), None, 0, 1, (1, 1))._replace(
        confidence=Confidence.LIKELY
    )
    judged = Judged("a.py", b"x\n", (found,), frozenset({"TPL102"}), Confidence.LIKELY, True)
    Baseline(str(tmp_path / "known.json")).with_findings_of([judged]).write()
    baseline = read(str(tmp_path / "known.json"))
    assert baseline.split(judged) == ([], None)
    nothing = judged._replace(found=())
    assert baseline.split(nothing) == ([], Stale("a.py", ("TPL102",)))
    assert baseline.split(nothing._replace(least=Confidence.PROVEN)) == ([], None)
    assert len(baseline.with_findings_of([nothing._replace(least=Confidence.PROVEN)])) == 1


def test_an_entry_of_a_file_that_cannot_be_read_stays(lint):  # noqa: F811
    path = write("a.py", "x = slow\n")
    known(lint)
    before = Path("known.json").read_bytes()
    path.write_text("x = slow(\n")
    status, _, err = lint("--baseline", "known.json")
    assert status == 2
    assert "any more" not in err
    assert lint("--baseline", "known.json", "--write-baseline")[0] == 2
    assert Path("known.json").read_bytes() == before


def test_writing_for_a_part_keeps_what_is_known_of_the_rest(lint):  # noqa: F811
    write("a.py", "x = slow\n")
    write("sub/b.py", "x = slow\ny = risky\n")
    known(lint)
    before = Path("known.json").read_bytes()
    known(lint, "sub")
    known(lint, "--select", "TPL1")
    known(lint, "--min-severity", "error")
    assert Path("known.json").read_bytes() == before


def test_the_file_does_not_depend_on_the_folder_of_the_run(lint, monkeypatch):  # noqa: F811
    write("a.py", "x = slow\n")
    write("sub/b.py", "x = slow\n")
    known(lint)
    before = Path("known.json").read_bytes()
    monkeypatch.chdir("sub")
    assert places(lint, "--baseline", "../known.json") == []
    assert places(lint, "--baseline", "../known.json", str(Path("../a.py").resolve())) == []
    assert lint("--baseline", "../known.json", "--write-baseline", "..", "-q") == (0, "", "")
    assert Path("../known.json").read_bytes() == before


def test_the_configuration_names_it_from_its_own_folder(lint, monkeypatch):  # noqa: F811
    write("torchperf-lint.toml", 'baseline = "known.json"\n')
    write("sub/a.py", "x = slow\n")
    status, _, err = lint()
    assert status == 2
    assert err.startswith("known.json: error: there is no such baseline; `--write-baseline` makes it (`baseline` of ")
    monkeypatch.chdir("sub")
    assert lint("--write-baseline", "-q") == (0, "", "")
    assert Path("../known.json").exists()
    assert places(lint) == []
    assert places(lint, "--no-baseline") == places(lint, "--isolated") == ["a.py:1"]


def test_only_new_findings_are_fixed(lint):  # noqa: F811
    path = write("a.py", "x = slow\n")
    known(lint)
    path.write_text("import os\nx = slow\ny = [slow]\nrisky\n")
    write("b.py", "slow\n")
    status, out, _ = lint("--baseline", "known.json", "--diff")
    assert status == 1
    assert [line for line in out.splitlines() if line.startswith(("+", "-")) and line[1:2] not in "+-"] == [
        "-y = [slow]",
        "+y = [fast]",
        "-slow",
        "+fast",
    ]
    status, out, _ = lint("--baseline", "known.json", "--fix", "--output-format", "concise")
    assert path.read_text() == "import os\nx = slow\ny = [fast]\nrisky\n"
    assert Path("b.py").read_text() == "fast\n"
    assert status == 1
    assert out.splitlines()[:2] == [
        "a.py:4:1: TPL201 `risky` is risky",
        "Fixed 2 findings in 2 files:",
    ]


def test_a_known_finding_is_spared_wherever_fixes_move_it(lint):  # noqa: F811
    path = write("a.py", "x = slow\ny = [risky, slow]\n")
    known(lint)
    path.write_text("(risky, risky)\nx = slow\nrisky\ny = [risky, slow]\nz = slow\n")
    assert lint("--baseline", "known.json", "--fix", "--unsafe-fixes", "-q") == (0, "", "")
    assert path.read_text() == "(daring, daring)\nx = slow\ndaring\ny = [risky, slow]\nz = fast\n"


def test_standard_input_has_the_baseline_of_its_name(lint, monkeypatch):  # noqa: F811
    write("a.py", "x = slow\n")
    known(lint)
    for options in ([], ["--fix"]):
        feed(monkeypatch, b"# moved\nx = slow\ny = [slow]\n")
        status, out, err = lint("-", "--stdin-filename", "a.py", *CONCISE, "--baseline", "known.json", *options)
        if options:
            assert (status, out, err) == (0, "# moved\nx = slow\ny = [fast]\n", "")
        else:
            assert status == 1
            assert out.startswith("a.py:3:6: TPL102")
    feed(monkeypatch, b"x = slow\n")
    assert lint("-", "--stdin-filename", "a.py", "-q", "--baseline", "known.json", "--fix") == (0, "x = slow\n", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"version": 1,\n', "known.json:2:1: error: is not JSON: "),
        (b"\xff", "known.json: error: is not UTF-8"),
        (b"[]", 'known.json: error: is no baseline: it needs a "version" and "findings"'),
        (b'{"version": 1}', "known.json: error: is no baseline"),
        (b'{"version": "1", "findings": {}}', "known.json: error: is no baseline"),
        (b'{"version": 1, "findings": {"a.py": 3}}', 'known.json: error: "a.py" needs a list of objects'),
        (b'{"version": 1, "findings": {"a.py": [{"code": "TPL102"}]}}', '"a.py" needs a list of objects'),
        (b'{"version": 2, "findings": {"a.py": ["another form"]}}', "known.json: error: has the format 2"),
        (b'{"version": 2, "findings": [{"code": "A", "fingerprint": "f"}]}', "known.json: error: has the format 2"),
        (b'<<<<<<< HEAD\n{\n=======\n{"version": 1, "findings": {}}', "known.json:1:1: error: is not JSON"),
        (b'{"name": "other", "version": 2, "findings": {}}', "known.json: error: has the format 2"),
        (b"[" * 100_000, "known.json: error: is not JSON that can be read"),
        (b'{"version": ' + b"1" * 5_000 + b"}", "known.json: error: is not JSON that can be read"),
    ],
)
def test_a_broken_file_is_one_line(lint, text, told):  # noqa: F811
    write("a.py", "slow\n")
    write("known.json", text)
    for options in ([], ["--write-baseline"]):
        status, out, err = lint("--baseline", "known.json", *options)
        assert (status, out) == (2, "")
        assert told in err
        assert len(err.splitlines()) == 1
        assert ("it is not overwritten: delete it" in err) is bool(options)
    assert Path("known.json").read_bytes() == text


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1, "findings": {}, "name": "other"}',
        '{"version": 1, "findings": {"high": [], "low": []}}',
        '{"version": 2, "name": "other", "findings": {}}',
        '{"version": 2, "findings": {"x',
        '{"version": 2, "findings": {"x": "',
        '{"version": 2, "findings": {"x": 3',
        '{"version": 2, "findings": {"a.py": [{"code": "E501", "row": 3',
        '{"version": 2, "findings": {"x": "\\"a.py\\": [{\\"code\\": \\"c\\", \\"fingerprint\\": 3"}}',
    ],
)
def test_a_file_that_was_never_a_baseline_is_not_overwritten(lint, text):  # noqa: F811
    write("a.py", "slow\n")
    write("known.json", text)
    status, out, err = lint("--baseline", "known.json", "--write-baseline")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.endswith("; it is not overwritten: delete it, or name another file\n")
    assert Path("known.json").read_text() == text


def test_a_byte_order_mark_changes_nothing(lint):  # noqa: F811
    write("a.py", "x = slow\n")
    known(lint)
    path = Path("known.json")
    whole = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + whole)
    assert lint("--baseline", "known.json", "-q") == (0, "", "")
    path.write_bytes(b"\xef\xbb\xbf" + whole[:-9])
    status, _, err = lint("--baseline", "known.json", "--write-baseline", "-q")
    assert (status, "only what this run finds" in err, path.read_bytes()) == (0, True, whole)


def test_a_baseline_that_is_cut_off_in_its_first_entry_is_written_anew(lint):  # noqa: F811
    write("sub/a.py", "x = slow\n")
    known(lint)
    path = Path("known.json")
    whole = path.read_text()
    for end in range(whole.index('"code"') + len('"code"'), len(whole) - 2):
        path.write_text(whole[:end])
        assert lint("--baseline", "known.json", "--write-baseline", "-q")[0] == 0, whole[:end]
        assert path.read_text() == whole


ENTRY = '{"code": "TPL102", "fingerprint": "f"}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "known.json:1:1: {}: is not JSON: Expecting value"),
        ('{"version": 99, "findings": {}}', "known.json: {}: has the format 99, and this program knows 1"),
        (f'{{"version": 99, "made-by": "x", "findings": {{"a.py": [{ENTRY}]}}}}', "known.json: {}: has the format 99"),
        (f'{{\n  "version": 1,\n  "findings": {{\n    "a.py": [\n      {ENTRY}', "known.json:5:45: {}: is not JSON"),
        (
            '{\n  "version": 1,\n  "findings": {\n    "a.py": [\n<<<<<<< HEAD\n=======\n'
            f"      {ENTRY}\n>>>>>>> other\n    ]\n  }}\n}}\n",
            "known.json:5:1: {}: is not JSON",
        ),
        (
            f'{{"version": 1, "findings": {{"a.py": [{ENTRY[:-1]}, "confidence": "no"}}]}}}}',
            'known.json: {}: "a.py": `no` is not `proven` or `likely`',
        ),
    ],
)
def test_what_was_a_baseline_is_written_anew(lint, text, told):  # noqa: F811
    write("a.py", "x = slow\n")
    write("known.json", text)
    status, out, err = lint("--baseline", "known.json")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(told.format("error"))
    assert err.endswith("; `--write-baseline` writes it anew\n")
    status, out, err = lint("--baseline", "known.json", "--write-baseline")
    assert (status, out) == (0, "")
    assert err.startswith(told.format("warning"))
    assert err.endswith(": only what this run finds is in it now\nWrote 1 finding to known.json.\n")
    assert places(lint, "--baseline", "known.json") == []


def test_an_error_names_the_configuration_that_names_the_baseline(lint):  # noqa: F811
    write("base.toml", "baseline = 'no.json'\n")
    write("torchperf-lint.toml", "extend = 'base.toml'\n")
    write("a.py", "slow\n")
    told = "no.json: error: there is no such baseline; `--write-baseline` makes it"
    assert lint() == (2, "", f"{told} (`baseline` of base.toml)\n")
    for options in (["--baseline", "no.json"], ["--config", "baseline = 'no.json'"]):
        assert lint(*options) == (2, "", f"{told}\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--baseline", "absent.json"], "absent.json: error: there is no such baseline; `--write-baseline` makes it"),
        (["--baseline", "."], ".: error: cannot be read: Is a directory"),
        (["--baseline", ".", "--write-baseline"], ".: error: cannot be read: Is a directory"),
        (["--baseline", "a.py/k.json", "--write-baseline"], "a.py/k.json: error: cannot be written: "),
        (["--baseline", "\0", "--write-baseline"], "error: cannot be written: "),
        (["--baseline", ""], "argument --baseline: no file is named"),
        (["--write-baseline"], "torchperf-lint: error: --write-baseline needs --baseline FILE, or the setting"),
        (["--baseline", "k", "--write-baseline", "--fix"], "--write-baseline takes the findings as they are"),
        (["--baseline", "k", "--write-baseline", "--diff"], "it cannot stand beside --diff"),
        (["--baseline", "k", "--write-baseline", "--add-noqa"], "it cannot stand beside --write-baseline"),
        (["--baseline", "k", "--write-baseline", "-"], "--write-baseline is for files"),
        (["--baseline", "k", "--write-baseline", "--changed-since", "x"], "cannot stand beside --changed-since"),
        (["--baseline", "k", "--no-baseline"], "--no-baseline cannot stand beside --baseline"),
    ],
)
def test_options_that_cannot_be_met_are_one_line(lint, options, told):  # noqa: F811
    write("a.py", "slow\n")
    status, out, err = lint(*options)
    assert (status, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


def test_it_is_made_in_a_folder_that_is_not_there_yet_and_ends_in_a_newline(lint):  # noqa: F811
    write("a.py", "slow\n")
    assert lint("--baseline", "new/known.json", "--write-baseline", "-q") == (0, "", "")
    text = Path("new/known.json").read_text()
    assert text.endswith("}\n")
    assert list(json.loads(text)["findings"]) == ["../a.py"]
    assert lint("--baseline", "new/known.json", "-q") == (0, "", "")
    write("a.py", "fast\n")
    assert lint("--baseline", "new/known.json", "--write-baseline", "-q") == (0, "", "")
    assert json.loads(Path("new/known.json").read_text()) == {"version": 1, "findings": {}}


def test_names_of_files_may_be_anything(lint):  # noqa: F811
    for name in ('a "b".py', "é.py", "tab\there.py", "a\\b.py"):
        write(name, "x = slow\n")
    known(lint)
    assert places(lint, "--baseline", "known.json") == []


def test_machine_formats_hold_what_is_new_only(lint):  # noqa: F811
    path = write("a.py", "x = slow\n")
    known(lint)
    path.write_text("x = slow\nrisky\n")
    found = json.loads(lint("--baseline", "known.json", "--output-format", "json")[1])
    assert [each["code"] for each in found] == ["TPL201"]
