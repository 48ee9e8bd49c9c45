"""The record of public notebooks: what may not be there is not, and the script sees it where it is."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from linting import ROOT
from training_loop import LOOP


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("notebooks")


def notebook(source: str, output: str = "1") -> bytes:
    cell = {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source.splitlines(keepends=True)}
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": [output]}]
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


def test_no_notebook_of_the_record_was_damaged(script: ModuleType) -> None:
    rows = script.recorded()
    assert len({row.package for row in rows}) == len(rows)
    assert sum(row.notebooks for row in rows) >= 50
    assert sum(row.changed for row in rows) >= 4
    for row in rows:
        assert row.notebooks > 0
        assert row.crashes == row.outside == row.broken == row.unstable == 0, row


def test_bytes_outside_of_sources_are_counted(script: ModuleType) -> None:
    before = notebook('a = 1\nb = "\\"source\\": [1]"\n')
    assert script.outside(before, notebook("c = 2\n")) == 0
    assert script.outside(before, before.replace(b'"source": [', b'"source":  [')) > 0
    assert script.outside(before, notebook("a = 1\n", output="2")) == 1
    assert script.outside(before, before + b"\n\n") == 2
    assert script.outside(before, before.replace(b'"metadata": {}', b'"metadata": {"a": 0}', 1)) > 0


def test_a_package_is_linted_and_fixed(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_bytes(notebook(LOOP))
    (tmp_path / "b.ipynb").write_bytes(notebook("def f(:\n"))
    row = script.examine("package", "1", tmp_path)
    assert (tmp_path / "a.ipynb").read_bytes() == notebook(LOOP)
    assert (row.notebooks, row.cells, row.changed, row.unread) == (2, 2, 1, 1)
    assert row.findings > 0
    assert (row.crashes, row.outside, row.broken, row.unstable) == (0, 0, 0, 0)
