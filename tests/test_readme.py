"""Outputs in documents are what the tool prints: each block behind `<!-- run: COMMAND -->` is run again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from documents import COLUMNS, DOCUMENTS, README, folded
from linting import ROOT
from torchperf_lint.engine.project_root import MOST_ENTRIES, MOST_FILES
from torchperf_lint.engine.project_snapshot import MOST_UNKEPT
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.engine.results import MOST_SETTINGS
from torchperf_lint.engine.store import SETTLED
from torchperf_lint.model.bounds import MOST_CALLS_UP

RUN = re.compile(
    r"<!-- (?:file: (?P<file>\S+)|run(?: in (?P<folder>\S+))?: (?P<command>.+?)) -->\n"
    r"```(?P<language>\w+)\n(?P<shown>.*?)```\n",
    re.DOTALL,
)
PAGE = re.compile(r"\]\((?!\w+:)(?P<path>[^)#]*)(?:#(?P<anchor>[^)]+))?\)")
WITH_OUTPUTS = [path for path in DOCUMENTS if re.search(r"<!-- (run|file)\b", path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("document", WITH_OUTPUTS, ids=lambda path: path.stem)
def test_the_outputs_are_those_of_the_tool(document: Path, bless: bool) -> None:
    text = document.read_text(encoding="utf-8")
    assert len(RUN.findall(text)) == len(re.findall(r"<!-- (?:run|file)\b", text))
    printed = RUN.sub(lambda block: f"{block[0][: block.start('shown') - block.start()]}{shown(block)}```\n", text)
    if bless:
        document.write_text(printed, encoding="utf-8")
    else:
        assert text == printed, "`pytest --bless` rewrites it"


def shown(block: re.Match[str]) -> str:
    """What the block has to hold: the file, or the output, in a console block below its command and folded."""
    if block["file"]:
        return (ROOT / block["file"]).read_text(encoding="utf-8")
    program, *arguments = shlex.split(block["command"])
    run = {"torchperf-lint": [sys.executable, "-m", "torchperf_lint"], "python": [sys.executable]}[program]
    done = subprocess.run(
        [*run, *arguments],
        cwd=ROOT / (block["folder"] or ""),
        env={name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    # `why` fails no check where nothing is reported.
    reports = program == "torchperf-lint" and not (arguments[0] == "why" and " reports it: " not in done.stdout)
    assert done.returncode == int(reports), done.stderr
    assert "error" not in done.stderr
    return f"$ {block['command']}\n{folded(done.stdout)}" if block["language"] == "console" else done.stdout


def test_the_readme_is_short() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_samples_fit_their_columns(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for block in re.findall(r"(?s)^```\w+[^\n]*\n(.*?)^```", text, re.MULTILINE):
        for line in block.splitlines():
            assert len(line) <= COLUMNS, line


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_prose_fits_its_columns(document: Path) -> None:
    """A row of a table has to be one line, and a word may be longer."""
    text = re.sub(r"(?ms)^ *(```+)\w.*?^ *\1$", "", document.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if not line.startswith("|") and " " in line.strip()]
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_what_a_document_links_to_is_there(document: Path) -> None:
    links = [(link["path"], link["anchor"]) for link in PAGE.finditer(document.read_text(encoding="utf-8"))]
    for path, anchor in links:
        linked = document.parent / path if path else document
        assert linked.is_file(), path
        if anchor:
            assert anchor in anchors(linked), f"{path}#{anchor}"


def anchors(document: Path) -> set[str]:
    """The headings of a document as the repository's host and the site name them."""
    headings = re.findall(r"(?m)^#+ (.*)$", document.read_text(encoding="utf-8"))
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


PROJECT = ROOT / "docs" / "project.md"
DECISIONS = ROOT / "docs" / "decisions.md"
NUMBERS = {
    (PROJECT, r"for the last (\w+) sets of settings"): MOST_SETTINGS,
    (PROJECT, r"from the last (\w+) seconds before the file was read"): SETTLED // 1_000_000_000,
    (PROJECT, r"more than ([\d ]+) Python files"): MOST_FILES,
    (PROJECT, r"or ([\d ]+) entries"): MOST_ENTRIES,
    (PROJECT, r"more than (\d+) MB of Python"): MOST_UNKEPT // 1_000_000,
    (DECISIONS, r"over more than (\w+) calls"): MOST_CALLS_UP,
    (README, r"There are (\d+) \[rules\]"): len(all_rules()),
}
"""By a document and the words around it, a number of the document and what it has to be."""
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}


@pytest.mark.parametrize(("where", "number"), NUMBERS.items(), ids=lambda value: str(value)[-40:])
def test_numbers_are_those_of_the_code(where: tuple[Path, str], number: int) -> None:
    document, words = where
    (said,) = re.findall(words, " ".join(document.read_text(encoding="utf-8").split()))
    assert WORDS.get(said) or int(said.replace(" ", "")) == number
