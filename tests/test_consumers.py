"""What other programs make of our formats: their own readers, schemas and rules for reading, not ours."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import junitparser
import pytest
import sarif_pydantic
from jsonschema import Draft202012Validator
from pydantic import ValidationError

import sarif_schema
from linting import ROOT
from test_formats import BROKEN, NASTY, PATHS, UNREADABLE, rendered
from test_overview import many
from test_report import LOOP, diagnostic, fix
from torchperf_lint import check
from torchperf_lint.engine.findings import Because, Confidence, Cost, Diagnostic, Edit, Fix, Loss, Rate, Safety
from torchperf_lint.report import github, gitlab, junit, printable, rdjson, sarif
from training_loop import LOOP as TRAINING

WAIT = Cost(Rate.STEP, Loss.WAIT)


def findings(path: str = "train.py") -> list[Diagnostic]:
    """A plain finding with a fix, and one whose texts have to be escaped."""
    plain = diagnostic(
        LOOP,
        b"loss.item()",
        code="TPL101",
        name="item-in-hot-loop",
        cost=WAIT,
        because=(Because(1, "the loop runs per batch"), Because(7, "called here", "main.py")),
        fix=fix(LOOP, b"loss.item()", b"loss"),
    )
    nasty = diagnostic(LOOP, b"print", path=path, severity="note", message=NASTY, confidence=Confidence.LIKELY)
    return [plain, nasty]


def of_a_run(module: ModuleType, path: str = "train.py") -> str:
    failures = [BROKEN._replace(path=path), UNREADABLE]
    return rendered(module, *findings(path), *many(), failures=failures, describe=check.described)


# SARIF


@pytest.mark.parametrize("path", PATHS)
def test_models_of_sarif_take_the_log(path: str) -> None:
    log = sarif_pydantic.Sarif.model_validate_json(of_a_run(sarif, path), strict=True)
    assert log.version == "2.1.0"
    (run,) = log.runs
    first = run.results[0]
    assert first.level.value == "error"
    assert [step.message.text for step in first.related_locations] == ["the loop runs per batch", "called here"]
    (change,) = first.fixes[0].artifact_changes
    assert change.replacements[0].inserted_content.text == "loss"
    assert first.partial_fingerprints.keys() == {sarif.FINGERPRINT}
    rule = run.tool.driver.rules[first.rule_index]
    assert rule.id == first.rule_id == "TPL101"
    assert rule.help.markdown.startswith("# TPL101 item-in-hot-loop")
    prints = [tuple(each.partial_fingerprints.values()) for each in run.results]
    assert len(prints) == len(set(prints))


def test_models_of_sarif_refuse_what_is_none() -> None:
    log = json.loads(of_a_run(sarif))
    result = log["runs"][0]["results"][0]
    result["level"], result["ruleIndex"] = "fatal", "1"
    with pytest.raises(ValidationError, match="2 validation errors"):
        sarif_pydantic.Sarif.model_validate_json(json.dumps(log), strict=True)


def test_the_schema_of_sarif_is_the_published_one_and_refuses_what_it_forbids() -> None:
    assert hashlib.sha256(sarif_schema.SCHEMA.read_bytes()).hexdigest() == sarif_schema.DIGEST
    log = json.loads(of_a_run(sarif))
    assert sarif_schema.problems(log) == []
    result = log["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    place["region"]["startLine"], place["region"]["startcolumn"] = 0, 1
    place["artifactLocation"]["uri"] = "a b.py"
    result["level"] = "fatal"
    del result["message"], result["fixes"][0]["artifactChanges"]
    result["relatedLocations"][0]["id"] = "first"
    result["partialFingerprints"]["text"] = 1
    broken = sarif_schema.problems(log)
    assert len(broken) == 8, broken


@pytest.mark.parametrize(
    "folder", ["fixtures/docs", "fixtures/workloads", pytest.param("fixtures", marks=pytest.mark.slow)]
)
def test_logs_of_fixtures_keep_to_the_schema(folder: str, tmp_path: Path) -> None:
    report = tmp_path / "report.sarif"
    shutil.copytree(ROOT / folder, tmp_path / folder)
    options = ["--select", "ALL", "--isolated", "--unsafe-fixes", "--exit-zero", "--no-cache", "--output-format"]
    command = [sys.executable, "-m", "torchperf_lint", folder, *options, "sarif", "--output-file", str(report)]
    subprocess.run(command, cwd=tmp_path, check=True)
    log = json.loads(report.read_text(encoding="utf-8"))
    assert sarif_schema.problems(log) == []
    (run,) = log["runs"]
    assert {"fixes", "relatedLocations", "partialFingerprints"} <= {name for each in run["results"] for name in each}
    uris = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert any(each.endswith(".ipynb") for each in uris) == (folder != "fixtures/workloads")


# GitHub


def command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner reads it: its name, properties and data, unescaped."""
    line = line.lstrip()
    assert line.startswith("::")
    head, _, data = line[2:].partition("::")
    name, _, listed = head.partition(" ")
    properties = dict(part.split("=", 1) for part in listed.split(",") if part)
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}

    def unescaped(text: str, known: Sequence[str]) -> str:
        for each in known:
            text = text.replace(each, escapes[each])
        return text.replace("%25", "%")

    return name, {key: unescaped(text, [*escapes]) for key, text in properties.items()}, unescaped(data, ["%0D", "%0A"])


@pytest.mark.parametrize("path", PATHS)
def test_the_runner_of_github_reads_what_was_meant(path: str) -> None:
    first, second, third, _ = (
        command(line) for line in rendered(github, *findings(path), failures=[BROKEN, UNREADABLE]).split("\n")
    )
    name, properties, data = first
    assert name == "error"
    assert properties == {
        "title": "torchperf-lint (TPL101)",
        "file": os.path.abspath("train.py"),
        "line": "2",
        "endLine": "2",
        "col": "14",
        "endColumn": "25",
    }
    assert data.splitlines()[1:] == [
        "  cost: wait per step",
        "  because: train.py:1: the loop runs per batch",
        "  because: main.py:7: called here",
        "  fix: add on the device",
    ]
    name, properties, data = second
    assert name == "notice"
    kept = "".join(each if each in "\r\n" else printable(each) for each in os.path.abspath(path))
    assert properties["file"] == kept
    assert " 100%\r\n::e, {0} [f](1) " in data
    assert third[0] == "error"


# GitLab

CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32,}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path"],
                "properties": {"path": {"type": "string", "pattern": "^(?!\\./|/)"}},
                "anyOf": [
                    {"required": ["lines"], "properties": {"lines": {"$ref": "#/$defs/lines"}}},
                    {"required": ["positions"], "properties": {"positions": {"$ref": "#/$defs/positions"}}},
                ],
            },
        },
    },
    "$defs": {
        "line": {"type": "integer", "minimum": 1},
        "lines": {"required": ["begin"], "properties": {"begin": {"$ref": "#/$defs/line"}}},
        "positions": {
            "required": ["begin"],
            "properties": {"begin": {"required": ["line"], "properties": {"line": {"$ref": "#/$defs/line"}}}},
        },
    },
}
"""What GitLab documents of a code quality report: its paths begin at the repository's root, without `./`."""


@pytest.mark.parametrize("path", ["./train.py", *PATHS])
def test_code_quality_reports_are_as_gitlab_documents_them(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    issues = json.loads(of_a_run(gitlab, path))
    assert [each.message for each in Draft202012Validator(CODE_QUALITY).iter_errors(issues)] == []
    assert len({each["fingerprint"] for each in issues}) == len(issues)
    issues[0]["severity"], issues[1]["location"]["path"] = "error", "./a.py"
    del issues[2]["location"]["positions"]
    assert len([*Draft202012Validator(CODE_QUALITY).iter_errors(issues)]) == 3


# reviewdog

_TEXT = {"type": "string"}
_LINE = {"type": "integer", "minimum": 1}


def message(required: Sequence[str] = (), **properties: object) -> dict[str, object]:
    """A schema for a message of the protocol buffer: its fields, and no others."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


_SOURCE = message(["name"], name=_TEXT, url=_TEXT)
_POSITION = message(["line"], line=_LINE, column=_LINE)
_RANGE = message(["start"], start=_POSITION, end=_POSITION)
_PLACE = message(["path"], path={"type": "string", "minLength": 1}, range=_RANGE)
_SEVERITY = {"enum": ["UNKNOWN_SEVERITY", "ERROR", "WARNING", "INFO"]}
RDJSON = message(
    ["diagnostics"],
    source=_SOURCE,
    severity=_SEVERITY,
    diagnostics={
        "type": "array",
        "items": message(
            ["message", "location"],
            message={"type": "string", "minLength": 1},
            location=_PLACE,
            severity=_SEVERITY,
            source=_SOURCE,
            code=message(value=_TEXT, url=_TEXT),
            suggestions={"type": "array", "items": message(["range", "text"], range=_RANGE, text=_TEXT)},
            original_output=_TEXT,
            related_locations={"type": "array", "items": message(["location"], message=_TEXT, location=_PLACE)},
        ),
    },
)
"""The Reviewdog Diagnostic Format, from its protocol buffer."""


@pytest.mark.parametrize("path", PATHS)
def test_reviewdog_reads_messages_of_its_protocol(path: str) -> None:
    report = json.loads(of_a_run(rdjson, path))
    assert [each.message for each in Draft202012Validator(RDJSON).iter_errors(report)] == []
    first = report["diagnostics"][0]
    assert first["location"]["range"] == {"start": {"line": 2, "column": 14}, "end": {"line": 2, "column": 25}}
    assert [each["message"] for each in first["related_locations"]] == ["the loop runs per batch", "called here"]
    place = {"start": {"line": 2}, "end": {"line": 2}}
    assert first["suggestions"] == [{"range": place, "text": "    total += loss"}]
    first["location"]["range"]["start"]["line"], first["severity"], first["note"] = 0, "NOTE", ""
    assert len([*Draft202012Validator(RDJSON).iter_errors(report)]) == 3


def posted(report: dict[str, Any], text: str) -> str:
    """The text after the first suggestion, whose rows GitHub replaces."""
    (suggestion,) = report["diagnostics"][0]["suggestions"]
    first, last = (suggestion["range"][name]["line"] for name in ("start", "end"))
    rows = text.splitlines(keepends=True)
    new = [f"{suggestion['text']}\n"] if suggestion["text"] else []
    return "".join([*rows[: first - 1], *new, *rows[last:]])


@pytest.mark.parametrize(
    "edits",
    [
        [(0, 0, "import math\n")],
        [(0, 3, "")],
        [(3, 6, ""), (10, 11, "c\nd\n")],
        [(2, 3, "")],  # the second row goes on in the first
        [(2, 3, "x")],
        [(3, 6, "y\n")],
        [(15, 15, "z\n")],
        [(11, 15, "")],
    ],
)
def test_a_suggestion_is_all_of_a_fix(edits: list[tuple[int, int, str]]) -> None:
    text = "é\nab\nüß\nx\ny\n"
    data = text.encode()
    assert [*itertools.accumulate(map(len, data.splitlines(keepends=True)))] == [3, 6, 11, 13, 15]
    made = tuple(Edit(start, end, content.encode()) for start, end, content in edits)
    found = diagnostic(data, b"ab", fix=Fix("a change", Safety.SAFE, made))
    wanted = data
    for edit in reversed(made):
        wanted = wanted[: edit.start] + edit.content + wanted[edit.end :]
    report = json.loads(rendered(rdjson, found, data=data))
    assert posted(report, text) == wanted.decode()


def test_an_empty_row_cannot_be_suggested() -> None:
    data = b"a\nb\n"
    found = diagnostic(data, b"b", fix=Fix("a change", Safety.SAFE, (Edit(0, 1, b""),)))
    assert "suggestions" not in json.loads(rendered(rdjson, found, data=data))["diagnostics"][0]


def test_columns_of_reviewdog_count_bytes() -> None:
    report = json.loads(
        rendered(rdjson, diagnostic("é = x.item()\n".encode(), b"x.item()"), data="é = x.item()\n".encode())
    )
    place = report["diagnostics"][0]["location"]["range"]
    assert place == {"start": {"line": 1, "column": 6}, "end": {"line": 1, "column": 14}}


# JUnit


@pytest.mark.parametrize("path", PATHS)
def test_a_reader_of_junit_counts_as_we_do(path: str) -> None:
    report = junitparser.JUnitXml.fromstring(of_a_run(junit, path).encode())
    told = (report.tests, report.failures, report.errors)
    report.update_statistics()
    assert (report.tests, report.failures, report.errors) == told == (64, 62, 2)
    cases = [case for suite in report for case in suite]
    assert len(cases) == 64
    first = cases[0]
    assert first.name == "org.torchperf-lint.TPL101"
    (failure,) = first.result
    assert isinstance(failure, junitparser.Failure)
    assert failure.type == "TPL101"
    assert {each.name: each.value for each in first.child(junitparser.Properties)}["cost"] == "wait per step"
    assert sum(isinstance(each, junitparser.Error) for case in cases for each in case.result) == 2


# A whole run


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sarif", "gitlab", "junit"])
def test_files_of_a_whole_run_are_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    report = tmp_path / "report"
    options = ["--output-format", name, "--output-file", str(report), "--unsafe-fixes", "--isolated", "train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "torchperf_lint", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    text = report.read_text(encoding="utf-8")
    read: dict[str, Any] = {
        "sarif": lambda: sarif_pydantic.Sarif.model_validate_json(text, strict=True).runs[0].results,
        "gitlab": lambda: json.loads(text),
        "junit": lambda: [*junitparser.JUnitXml.fromstring(text.encode())],
    }
    assert len(read[name]()) >= 1
    assert re.search("TPL102", text)
