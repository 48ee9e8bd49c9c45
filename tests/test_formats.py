"""What programs read: the output formats for other tools, with text that each of them has to escape, and their file."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import pytest
import yaml

import sarif_schema
from linting import ROOT, few
from test_cli import Faced, feed, lint, write  # noqa: F401
from test_report import LOOP, context, diagnostic, fix
from torchperf_lint import __version__, check
from torchperf_lint.engine.findings import (
    Because,
    CellPath,
    Confidence,
    Cost,
    Diagnostic,
    Edit,
    Failure,
    Fix,
    Loss,
    Rate,
    Safety,
)
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.report import (
    COUNTABLE,
    FORMATS,
    MOST_IN_FULL,
    Context,
    azure,
    checkstyle,
    github,
    gitlab,
    json_lines,
    junit,
    pylint,
    rdjson,
    sarif,
)
from torchperf_lint.report import json as json_report
from torchperf_lint.syntax.source import Source
from word_rules import word_rules  # noqa: F401

NEW = [name for name in FORMATS if name not in COUNTABLE]
NASTY = "a \"b\" 'c' ü & <d> 100%\r\n::e, {0} [f](1) \ud800 \x00\x1b[2J \U0001f600 \u2028 ##vso[x]"
PATHS = [
    "a b.py",
    "ü/100%25.py",
    "q\"u'o.py",
    "c:o,l#o?n.py",
    "l\nf\r.py",
    "by\udcfftes.py",
    "::error::.py",
    "\U0001f600.py",
]
BROKEN = Failure("broken.py", 3, 7, "syntax error: 'ü' & <100%>\n\udcff\x00")
UNREADABLE = Failure("gone.py", None, None, "cannot be read: Permission denied")


def rendered(module, *found: Diagnostic, data: bytes = LOOP, **options) -> str:
    return "\n".join(module.render(found, context(data, **options)))


def nasty(path: str = "train.py") -> Diagnostic:
    because = (Because(1, NASTY), Because(9, NASTY, path))
    return diagnostic(LOOP, b"loss.item()", path=path, message=NASTY, because=because)


def run_of(text: str) -> dict:
    """The only run of a SARIF log that keeps to the schema."""
    log = json.loads(text)
    assert sarif_schema.problems(log) == []
    (run,) = log["runs"]
    return run


# What findings weigh


def test_every_format_tells_cost_and_confidence() -> None:
    found = diagnostic(LOOP, b"loss.item()", cost=Cost(Rate.ELEMENT, Loss.WAIT), confidence=Confidence.LIKELY)
    (value,) = json.loads(rendered(json_report, found))
    assert (value["cost"], value["confidence"]) == ({"rate": "per element", "loses": "wait"}, "likely")
    assert json.loads(rendered(json_lines, found)) == value
    (result,) = run_of(rendered(sarif, found))["results"]
    assert result["properties"] == {"cost": "per element", "loses": "wait", "confidence": "likely"}
    assert "%0A  cost: wait per element, likely" in rendered(github, found)
    for module in (gitlab, checkstyle, pylint, azure, rdjson):
        assert f"{found.message} (wait per element, likely)" in rendered(module, found)
    values = [each.attrib["value"] for each in ElementTree.fromstring(rendered(junit, found)).iter("property")]
    assert values == ["error", "wait per element", "likely"]


# Any text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "module",
    [github, gitlab, junit, checkstyle, sarif, json_lines, pylint, azure, rdjson],
    ids=lambda each: each.__name__,
)
def test_any_text_is_held_and_read_again(module, path: str) -> None:
    text = rendered(module, nasty(path), failures=[BROKEN._replace(path=path), UNREADABLE])
    # JSON and XML are ASCII, and so the same in whatever encoding a terminal has.
    of_lines = {github: r"::error [^:\r\n]+::", pylint: r"[^\[]*:\d+: \[TPL\d+\] ", azure: r"##vso\[[^\]]*;\]"}
    assert module in of_lines or text.isascii()
    if module in (junit, checkstyle):
        ElementTree.fromstring(text)
    elif module is json_lines:
        assert [json.loads(line)["filename"] for line in text.splitlines()] == [path, path, "gone.py"]
    elif module in of_lines:
        assert len(text.split("\n")) == len(text.splitlines()) == 3
        assert all(re.match(of_lines[module], line) for line in text.splitlines())
        text.encode()
    else:
        json.dumps(json.loads(text), ensure_ascii=False).encode()  # no lone surrogate is left


# SARIF


def test_sarif_names_tool_rules_and_places() -> None:
    found = diagnostic(
        LOOP,
        b"loss.item()",
        path="a b/ü%.py",
        code="TPL101",
        name="item-in-hot-loop",
        because=(Because(1, "the loop runs per batch"), Because(7, "called here", "c:d.py")),
    )
    run = run_of(rendered(sarif, found, describe=check.described))
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("torchperf-lint", __version__)
    (rule,) = driver["rules"]
    assert (rule["id"], rule["name"]) == ("TPL101", "item-in-hot-loop")
    assert rule["help"]["markdown"].startswith("# TPL101 item-in-hot-loop\n")
    assert rule["fullDescription"]["text"].startswith("Reports `x.item()`")
    assert rule["defaultConfiguration"] == {"enabled": True, "level": "error"}
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"{Path.cwd().as_uri()}/"
    (result,) = run["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("TPL101", 0, "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C3%BC%25.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 2, "startColumn": 14, "endLine": 2, "endColumn": 25}
    steps = [(each["id"], each["physicalLocation"], each["message"]["text"]) for each in result["relatedLocations"]]
    uris = [step[1]["artifactLocation"]["uri"] for step in steps]
    rows = [(step[0], step[1]["region"], step[2]) for step in steps]
    assert uris == ["a%20b/%C3%BC%25.py", "c%3Ad.py"]
    assert rows == [(1, {"startLine": 1}, "the loop runs per batch"), (2, {"startLine": 7}, "called here")]


def test_every_rule_and_our_own_report_are_described_in_sarif() -> None:
    codes = [(rule.code, rule.name) for rule in all_rules()] + [("TPL001", "unused-suppression")]
    found = [diagnostic(LOOP, b"loss.item()", code=code, name=name) for code, name in codes]
    run = run_of(rendered(sarif, *found, describe=check.described))
    rules = run["tool"]["driver"]["rules"]
    assert [each["id"] for each in rules] == sorted(code for code, _ in codes)
    assert all(each["help"]["text"] and each["fullDescription"]["text"] for each in rules)
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [code for code, _ in codes]
    assert check.described("TPL999") is None


@pytest.mark.parametrize("path", PATHS)
def test_uris_hold_the_bytes_of_paths(path: str) -> None:
    (result,) = run_of(rendered(sarif, nasty(path)))["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == os.fsencode(path)


def test_a_file_outside_the_folder_has_an_absolute_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, location in {
        "../a b.py": {"uri": (tmp_path.parent / "a b.py").as_uri()},
        str(tmp_path / "c.py"): {"uri": "c.py", "uriBaseId": "%SRCROOT%"},
        "..d.py": {"uri": "..d.py", "uriBaseId": "%SRCROOT%"},
    }.items():
        (result,) = run_of(rendered(sarif, diagnostic(LOOP, b"loss.item()", path=path)))["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"] == location


def test_messages_of_sarif_hold_no_placeholders_and_no_links() -> None:
    found = diagnostic(LOOP, b"loss.item()", message="`fs[0](x, {1})` and `x[{k: v}]`")
    (result,) = run_of(rendered(sarif, found))["results"]
    assert result["message"]["text"] == "`fs[0] (x, {{1}})` and `x[{{k: v}}]`"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_fixes_of_sarif_replace_exactly_their_regions(newline: str) -> None:
    text = newline.join(["\ufeffimport torch", "\U0001f600 = 'é'; total += (loss", "    .item())", "print(total)"])
    data = text.encode()
    source = Source("train.py", data)
    start, end = source.utf8.index(b"(loss"), source.utf8.index(b".item") + len(b".item()")
    edits = (
        Edit(0, 0, f"import math{newline}".encode()),
        Edit(start, end, "é{0}[1](2)".encode()),
        Edit(len(source.utf8), len(source.utf8), newline.encode()),
        Edit(source.utf8.index(b"print"), source.utf8.index(b"print") + 5, b""),
    )
    found = diagnostic(data, b"total += (loss", fix=Fix("add on the device", Safety.SAFE, tuple(sorted(edits))))
    run = run_of(rendered(sarif, found, data=data))
    ((change,),) = (each["artifactChanges"] for each in run["results"][0]["fixes"])
    wanted = source.utf8
    for edit in sorted(edits, reverse=True):
        wanted = wanted[: edit.start] + edit.content + wanted[edit.end :]
    assert applied(change["replacements"], source.text, run["newlineSequences"]) == wanted.decode()


def applied(replacements: list[dict], text: str, newlines: list[str]) -> str:
    """A text with replacements of SARIF applied, as a reader that knows nothing of ours does it."""
    rows = [0, *(end.end() for end in re.finditer("|".join(map(re.escape, newlines)), text))]
    for each in reversed(replacements):
        region = each["deletedRegion"]
        start = rows[region["startLine"] - 1] + region["startColumn"] - 1
        end = rows[region["endLine"] - 1] + region["endColumn"] - 1
        text = text[:start] + each.get("insertedContent", {"text": ""})["text"] + text[end:]
    return text


def test_sarif_holds_the_fixes_that_the_options_would_apply() -> None:
    found = [diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x", safety)) for safety in Safety]
    for options, grades in (({}, ["safe"]), ({"unsafe": True}, ["safe", "unsafe"])):
        results = run_of(rendered(sarif, *found, **options))["results"]
        described = [each["description"]["text"] for result in results for each in result.get("fixes", [])]
        assert described == [f"add on the device ({grade})" for grade in grades]


def test_sarif_tells_what_could_not_be_checked() -> None:
    run = run_of(rendered(sarif, failures=[BROKEN, UNREADABLE]))
    assert run["results"] == []
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    first, second = invocation["toolExecutionNotifications"]
    assert first["level"] == second["level"] == "error"
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 3, "startColumn": 7}
    assert second["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "gone.py", "uriBaseId": "%SRCROOT%"}
    }
    assert run["tool"]["driver"]["notifications"][first["descriptor"]["index"]]["id"] == first["descriptor"]["id"]


# Fingerprints


def fingerprints(data: bytes, module=sarif, **changes) -> list[str]:
    """The fingerprints of a finding at each `.item()` of a text."""
    source = Source("train.py", data)
    found = []
    for match in re.finditer(rb"\w+\.item\(\)", source.utf8):
        (row, column), (end_row, end_column) = source.position(match.start()), source.position(match.end())
        place = {"row": row, "column": column, "end_row": end_row, "end_column": end_column}
        found.append(diagnostic(data, match[0])._replace(**place, **changes))
    text = rendered(module, *found, data=data)
    if module is gitlab:
        return [each["fingerprint"] for each in json.loads(text)]
    return [each["partialFingerprints"][sarif.FINGERPRINT] for each in run_of(text)["results"]]


@pytest.mark.parametrize("module", [sarif, gitlab])
def test_fingerprints_survive_moved_lines_and_nothing_else(module) -> None:
    lines = b"a = x.item()\nb = y.item()\na = x.item()\nc = x.item() + x.item()\n"
    before = fingerprints(lines, module)
    assert len(set(before)) == len(before) == 5
    assert fingerprints(b"import torch\n\n\n" + lines, module) == before
    assert fingerprints(lines.replace(b"\n", b"\r\n"), module) == before
    assert fingerprints(b"if z:\n" + re.sub(rb"(?m)^", b"    ", lines.rstrip()), module) == before
    swapped = fingerprints(b"b = y.item()\na = x.item()\na = x.item()\n", module)
    assert swapped == [before[1], before[0], before[2]]
    assert not {*fingerprints(lines, module, path="other.py")} & {*before}
    assert not {*fingerprints(lines, module, code="TPL101")} & {*before}
    assert fingerprints(lines.replace(b"b = y", b"d = y"), module)[1] not in before


def test_a_file_that_has_gone_still_has_findings() -> None:
    def gone(path: str) -> bytes:
        raise FileNotFoundError(path)

    found = diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x"))
    (result,) = run_of("\n".join(sarif.render([found], Context(gone))))["results"]
    assert "fixes" not in result
    assert result["partialFingerprints"]


# GitHub


def test_github_commands_are_escaped() -> None:
    found = diagnostic(LOOP, b"loss.item()", path="a,b:c%.py", message="50% of\r\n`x[a, b]`: no", severity="note")
    file = os.path.abspath("a,b:c%.py").replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    assert rendered(github, found) == (
        f"::notice title=torchperf-lint (TPL102),file={file},line=2,endLine=2,col=14,endColumn=25"
        "::a,b:c%25.py:2:14: TPL102 50%25 of%0D%0A`x[a, b]`: no"
    )


def test_github_has_evidence_and_fix_and_columns_in_one_line_only() -> None:
    because = (Because(1, "here"), Because(9, "there", "main.py"))
    found = diagnostic(LOOP, LOOP.rstrip(), because=because, fix=fix(LOOP, b"loss", b"x"), severity="warning")
    assert rendered(github, found) == (
        f"::warning title=torchperf-lint (TPL102),file={os.path.abspath('train.py')},line=1,endLine=3"
        "::train.py:1:1: TPL102 `loss.item()` waits for the device"
        "%0A  because: train.py:1: here%0A  because: main.py:9: there%0A  fix: add on the device"
    )


def test_github_tells_what_could_not_be_checked() -> None:
    first, second = rendered(github, failures=[BROKEN, UNREADABLE]).splitlines()
    assert first.startswith("::error title=torchperf-lint (TPL000),file=")
    assert ",line=3,col=7::broken.py:3:7: error: syntax error: 'ü' & <100%25>%0A" in first
    assert second.endswith("gone.py::gone.py: error: cannot be read: Permission denied")


# Azure, pylint


def laid_out(line: str) -> str:
    """A line with words for its path, numbers, code and message."""
    line = re.sub(r"(?s)(\] ?)(?!.*\] ?).*", r"\1MESSAGE", line)
    return re.sub(r"\d+", "N", re.sub(r"[\w/.-]+\.py", "PATH", re.sub(r"F401|TPL102", "CODE", line)))


@pytest.mark.parametrize("module", [azure, pylint], ids=["azure", "pylint"])
def test_lines_are_laid_out_as_ruff_does(module, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n", encoding="utf-8")
    options = ["--isolated", "--no-cache", "--exit-zero", "--output-format", module.__name__.rpartition(".")[2], "a.py"]
    ruff = [sys.executable, "-m", "ruff", "check", "--select", "F401"]
    theirs = subprocess.run([*ruff, *options], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    ours = rendered(module, diagnostic(LOOP, b"loss.item()"))
    assert laid_out(ours) == laid_out(theirs.rstrip("\n"))


def test_azure_commands_are_escaped_and_know_errors_and_warnings() -> None:
    found = diagnostic(LOOP, b"loss.item()", path="a;b]%.py", message="50% of\r\n`x[a]`: no", severity="note")
    file = os.path.abspath("a;b]%.py").replace("%", "%AZP25").replace(";", "%3B").replace("]", "%5D")
    assert rendered(azure, found) == (
        f"##vso[task.logissue type=warning;sourcepath={file};linenumber=2;columnnumber=14;code=TPL102;]"
        "50%AZP25 of%0D%0A`x[a]`: no"
    )
    assert rendered(azure, failures=[UNREADABLE]).startswith("##vso[task.logissue type=error;")


@pytest.mark.parametrize(
    ("module", "place"),
    [
        (pylint, "n.ipynb:1:"),
        (azure, "linenumber=1;columnnumber=1;"),
        (rdjson, '"line": 1\n'),
        (github, "n.ipynb,line=1,endLine=1,col=1,endColumn=1::n.ipynb:cell 3:2:14: "),
        (gitlab, '"line": 1,\n          "column": 1\n'),
        (checkstyle, 'line="1" column="1"'),
        (junit, 'line="1" column="1"'),
        (sarif, '"startLine": 1,\n                  "startColumn": 1,\n'),
    ],
)
def test_cells_are_told_in_the_message_and_have_no_row_of_their_file(module, place: str) -> None:
    steps = (Because(4, "runs in every step", None), Because(7, "is on the device", CellPath("n.ipynb", 2)))
    edited = fix(LOOP, b"loss", b"x")
    found = diagnostic(LOOP, b"loss.item()", path=CellPath("n.ipynb", 3), fix=edited, because=steps)
    text = rendered(module, found)
    assert place in text
    assert ("cell 3:2:14: TPL102 " if module is github else "cell 3, line 2: ") + "`loss.item()` waits" in text
    assert "suggestions" not in text
    if module in (rdjson, sarif):
        assert "cell 3, line 4: runs in every step" in text
        assert "cell 2, line 7: is on the device" in text
    assert not re.search(r'(?i)line"?[=:] ?"?[247]', text), "no row of a cell is one of the file"


# GitLab


def test_gitlab_has_what_a_code_quality_report_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part").mkdir()
    monkeypatch.chdir(tmp_path / "part")
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    text = rendered(gitlab, diagnostic(LOOP, b"loss.item()"), failures=[BROKEN, BROKEN._replace(path="b.py")])
    first, second, third = json.loads(text)
    assert first == {
        "check_name": "TPL102",
        "description": "TPL102: `loss.item()` waits for the device",
        "severity": "major",
        "fingerprint": first["fingerprint"],
        "location": {
            "path": "part/train.py",
            "positions": {"begin": {"line": 2, "column": 14}, "end": {"line": 2, "column": 25}},
        },
    }
    assert (second["check_name"], second["location"]["path"]) == ("TPL000", "part/broken.py")
    assert len({first["fingerprint"], second["fingerprint"], third["fingerprint"]}) == 3
    monkeypatch.delenv("CI_PROJECT_DIR")
    assert json.loads(rendered(gitlab, diagnostic(LOOP, b"loss.item()")))[0]["location"]["path"] == "train.py"
    assert rendered(gitlab) == "[]"


# XML


def test_junit_is_a_suite_for_each_file_and_a_case_for_each_finding() -> None:
    others = [diagnostic(LOOP, b"print", path="b.py"), diagnostic(LOOP, b"for", path="b.py", severity="note")]
    root = ElementTree.fromstring(rendered(junit, nasty(), *others, failures=[BROKEN]))
    assert root.attrib == {"name": "torchperf-lint", "tests": "4", "skipped": "0", "failures": "3", "errors": "1"}
    names = [os.path.relpath(suite.attrib["name"]) for suite in root]
    assert names == ["train.py", "b.py", "broken.py"]
    assert [suite.attrib["tests"] for suite in root] == ["1", "2", "1"]
    case = root.find("testsuite/testcase")
    assert (case.attrib["name"], case.attrib["line"], case.attrib["column"]) == ("org.torchperf-lint.TPL102", "2", "14")
    failure = case.find("failure")
    assert failure.attrib["message"] == re.sub("[\ud800\x00\x1b]", "\ufffd", NASTY)
    assert failure.text.startswith("line 2, col 14, a \"b\" 'c' ü & <d> 100%")
    assert "because: train.py:1: " in failure.text
    properties = [each.attrib for each in root.iter("property")]
    assert [each["value"] for each in properties if each["name"] == "severity"] == ["error", "error", "note"]
    assert [each["value"] for each in properties if each["name"] == "confidence"] == ["proven"] * 3
    error = root.find("testsuite/testcase/error")
    assert error.attrib["message"] == "syntax error: 'ü' & <100%>\n\ufffd\ufffd"


def test_junit_without_findings_has_a_case_that_passes() -> None:
    root = ElementTree.fromstring(rendered(junit))
    assert (root.attrib["tests"], root.attrib["failures"]) == ("1", "0")
    assert [len(case) for case in root.iter("testcase")] == [0]


def test_checkstyle_has_the_errors_of_each_file() -> None:
    note = diagnostic(LOOP, b"for", path="ü 'b\".py", severity="note")
    root = ElementTree.fromstring(rendered(checkstyle, nasty(), note, failures=[BROKEN, UNREADABLE]))
    assert [each.attrib["name"] for each in root] == ["train.py", "ü 'b\".py", "broken.py", "gone.py"]
    first, second, third, fourth = (each.attrib for each in root.iter("error"))
    assert first == {
        "line": "2",
        "column": "14",
        "severity": "error",
        "message": re.sub("[\ud800\x00\x1b]", "\ufffd", NASTY),
        "source": "torchperf-lint.TPL102",
    }
    assert second["severity"] == "info"
    assert (third["line"], third["column"], third["source"]) == ("3", "7", "torchperf-lint.TPL000")
    assert "column" not in fourth
    assert len(ElementTree.fromstring(rendered(checkstyle))) == 0


# JSON lines


def test_json_lines_are_the_objects_of_json_and_those_of_failures() -> None:
    found = [nasty(), diagnostic(LOOP, b"print", fix=fix(LOOP, b"print", b"log"))]
    lines = [json.loads(line) for line in rendered(json_lines, *found, failures=[UNREADABLE]).splitlines()]
    assert lines[:2] == json.loads(rendered(json_report, *found))
    assert lines[2].keys() == lines[0].keys()
    assert (lines[2]["code"], lines[2]["message"]) == ("TPL000", UNREADABLE.reason)


# The command line


@pytest.mark.parametrize("name", NEW)
def test_formats_for_programs_hold_nothing_else(lint, name: str) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    status, out, err = lint("--output-format", name)
    assert (status, err) == (1, "")
    assert "Found" not in out
    assert "TPL102" in out
    write("b.py", "def f(:\n")
    status, out, err = lint("--output-format", name)
    assert (status, err) == (2, "b.py:1:7: error: syntax error: invalid syntax\n")
    assert "TPL000" in out
    assert lint("--output-format", name, "--exit-zero", "a.py")[0] == 0


@pytest.mark.parametrize("name", NEW)
def test_statistics_are_not_printed_in_every_format(lint, name: str) -> None:  # noqa: F811
    status, out, err = lint("--statistics", "--output-format", name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"it cannot stand beside {name}" in err


@pytest.mark.parametrize("name", few([*FORMATS]))
def test_the_output_file_holds_what_would_be_printed(lint, name: str, monkeypatch) -> None:  # noqa: F811
    monkeypatch.setenv("NO_COLOR", "1")
    write("ä b.py", "x = slow\nrisky\n")
    status, printed, _ = lint("--output-format", name)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert lint("--output-format", name, "-o", "new/er/report") == (status, "", "")
    report = Path("new/er/report")
    assert report.read_bytes() == printed.encode()
    assert os.listdir("new/er") == ["report"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(report.stat().st_mode) == 0o666 & ~umask


def test_the_output_file_is_replaced_and_keeps_its_mode(lint) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    report = write("report", "old\n" * 1000)
    report.chmod(0o640)
    Path("link").symlink_to("report")
    assert lint("--output-format", "concise", "-q", "--output-file", "link") == (1, "", "")
    assert Path("link").is_symlink()
    assert report.read_text() == "a.py:1:5: TPL102 [*] `slow` is slow\n"
    assert stat.S_IMODE(report.stat().st_mode) == 0o640


def test_diffs_statistics_and_reports_on_standard_input_go_into_the_file(lint, monkeypatch) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    assert lint("--diff", "-o", "report")[:2] == (1, "")
    assert "+x = fast\n" in Path("report").read_text()
    assert lint("--statistics", "-q", "-o", "report") == (1, "", "")
    assert Path("report").read_text() == "1  TPL102  [*]  slow-word\n"
    feed(monkeypatch, b"slow\nrisky\n")
    assert lint("-", "--fix", "-o", "report", "--output-format", "concise", "-q") == (1, "fast\nrisky\n", "")
    assert Path("report").read_text() == "-:2:1: TPL201 `risky` is risky\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [("folder", "Is a directory"), ("a.py/report", "Not a directory|File exists"), ("locked", "the file is read-only")],
)
def test_an_output_file_that_cannot_be_written_is_one_line(lint, path: str, reason: str) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    Path("folder").mkdir()
    write("locked", "old\n").chmod(0o444)
    status, out, err = lint("--output-format", "sarif", "--exit-zero", "--output-file", path)
    assert (status, out) == (2, "")
    message = f"torchperf-lint: error: the report cannot be written to {path}: "
    assert re.fullmatch(f"{re.escape(message)}({reason})\n", err)
    assert Path("locked").read_text() == "old\n"


def test_an_output_file_needs_a_name(lint) -> None:  # noqa: F811
    assert lint("-o", "")[2].endswith("no file is named\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_what_is_no_file_is_written_to_and_not_replaced(lint) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert lint("--output-format", "concise", "-q", "-o", "pipe") == (1, "", "")
        assert os.read(reader, 1000) == b"a.py:1:5: TPL102 [*] `slow` is slow\n"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


# The documents


def test_the_document_names_every_format_and_the_number_of_findings_in_full() -> None:
    text = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert {*FORMATS} <= named
    (number,) = re.findall(r"up to (\d+) findings as `full`", text)
    assert int(number) == MOST_IN_FULL


def test_the_document_has_the_inputs_of_the_action_and_the_job_for_gitlab() -> None:
    text = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    inputs = re.findall(r"(?m)^  ([a-z-]+):$", (ROOT / "action.yml").read_text(encoding="utf-8").partition("runs:")[0])
    part = text.partition("### GitHub")[2].partition("### GitLab")[0]
    assert re.findall(r"(?m)^\| `([a-z-]+)`", part) == inputs
    job = yaml.safe_load((ROOT / "docs" / "gitlab-ci.yml").read_text(encoding="utf-8"))["torchperf-lint"]
    (shown,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    for name, value in yaml.safe_load(shown)["torchperf-lint"].items():
        assert job[name] == value


def test_a_failure_says_where_as_far_as_it_is_known() -> None:
    places = [Failure("a.py", row, column, "why").place for row, column in ((3, 7), (3, None), (None, None))]
    assert places == ["a.py:3:7", "a.py:3", "a.py"]
