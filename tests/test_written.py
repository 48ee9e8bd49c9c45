"""The projects in the style of users: their table, and what a report of one counts for."""

from __future__ import annotations

import importlib
import sys
import tarfile
from types import ModuleType

import pytest

from linting import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script, which lies with its archive and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("written")


def test_the_first_run_is_that_of_the_programs_in_the_archive(script: ModuleType) -> None:
    with tarfile.open(script.PROGRAMS) as archive:
        programs = {name.removesuffix("/main.py") for name in archive.getnames() if name.count("/") == 2}
    rows = script.recorded()
    assert len({row.program for row in rows}) == len(rows) >= 50
    assert {row.program for row in rows} <= programs
    assert all(row.found <= row.lines and row.waits_found <= row.waits for row in rows)


def test_lines_that_wait_count_and_those_with_a_finding_are_found(script: ModuleType) -> None:
    lines = [
        {"waits_per_step": 2.0, "findings": ["TPL101"]},
        {"waits_per_step": 0.5, "findings": []},
        {"waits_per_step": 0.0, "findings": []},
    ]
    report = {"loops": [{"lines": lines[:1]}, {"lines": lines[1:]}], "not_seen": [{}, {}]}
    assert script.row_of("a/b", report) == ("a/b", 2, 1, 2.5, 2.0, 2)
