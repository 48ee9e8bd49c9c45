"""Outputs in documents are what the tool prints: each block behind `<!-- run: COMMAND -->` is run again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint.engine.project_root import MOST_ENTRIES, MOST_FILES
from torchperf_lint.engine.project_snapshot import MOST_UNKEPT
from torchperf_lint.engine.results import MOST_SETTINGS
from torchperf_lint.engine.store import SETTLED
from torchperf_lint.model.bounds import MOST_CALLS_UP
from torchperf_lint.model.domain.interfaces import FARTHEST

README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
WHY = ROOT / "docs" / "why.md"
RUN = re.compile(r"<!-- (?P<what>run|file): (?P<command>.+?) -->\n```(?P<language>\w+)\n(?P<shown>.*?)```\n", re.DOTALL)
PAGE = re.compile(r"\]\((?!\w+:|#)(?P<path>[^)#]+)")


@pytest.mark.parametrize("document", [README, ARCHITECTURE, WHY], ids=lambda path: path.stem)
def test_the_outputs_are_those_of_the_tool(document: Path, bless: bool) -> None:
    text = document.read_text(encoding="utf-8")
    assert len(RUN.findall(text)) == text.count("<!-- run:") + text.count("<!-- file:") > 0
    printed = RUN.sub(lambda block: f"{block[0][: block.start('shown') - block.start()]}{shown(block)}```\n", text)
    if bless:
        document.write_text(printed, encoding="utf-8")
    else:
        assert text == printed, "`pytest --bless` rewrites it"


def shown(block: re.Match[str]) -> str:
    """What the block has to hold: the file, or the output, in a console block below its command."""
    if block["what"] == "file":
        return (ROOT / block["command"]).read_text(encoding="utf-8")
    program, *arguments = shlex.split(block["command"])
    run = {"torchperf-lint": [sys.executable, "-m", "torchperf_lint"], "python": [sys.executable]}[program]
    done = subprocess.run(
        [*run, *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    # `why` fails no check where nothing is reported.
    reports = program == "torchperf-lint" and not (arguments[0] == "why" and " reports it: " not in done.stdout)
    assert (done.returncode, done.stderr) == (int(reports), "")
    prompt = f"$ {block['command']}\n" if block["language"] == "console" else ""
    return prompt + done.stdout


@pytest.mark.parametrize("document", [README, ARCHITECTURE, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.stem)
def test_what_a_document_links_to_is_there(document: Path) -> None:
    paths = PAGE.findall(document.read_text(encoding="utf-8"))
    assert paths
    for path in paths:
        assert (document.parent / path).is_file(), path


NUMBERS = {
    r"for the last (\w+) sets of settings": MOST_SETTINGS,
    r"from the last (\w+) seconds before the file was read": SETTLED // 1_000_000_000,
    r"more than ([\d ]+) Python files": MOST_FILES,
    r"or ([\d ]+) entries": MOST_ENTRIES,
    r"more than (\d+) MB of Python": MOST_UNKEPT // 1_000_000,
    r"more than (\w+) steps away": FARTHEST,
    r"over more than (\w+) calls": MOST_CALLS_UP,
}
"""By the words around it, a number of the README and what it has to be."""
WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}


@pytest.mark.parametrize(("words", "number"), NUMBERS.items())
def test_numbers_are_those_of_the_code(words: str, number: int) -> None:
    (said,) = re.findall(words, " ".join(README.read_text(encoding="utf-8").split()))
    assert WORDS.get(said) or int(said.replace(" ", "")) == number
