"""The script that measures how the costs of a run grow with the files of a project."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def growth() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("growth")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three projects, of three files, one file and two files."""
    for name in ("big/a.py", "big/b.py", "big/sub/c.py", "small/only.py", "middle/x.py", "middle/y.py"):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n" * 1_000, encoding="utf-8")
    return tmp_path / "corpus"


def test_trees_hold_each_other_and_begin_with_whole_small_projects(growth: ModuleType, corpus: Path) -> None:
    files = [path.as_posix() for path in growth.in_order(corpus, ["big", "middle", "small"])]
    assert files == ["small/only.py", "middle/x.py", "middle/y.py", "big/a.py", "big/b.py", "big/sub/c.py"]


def test_a_tree_is_parsed_and_linted_by_processes_of_their_own(
    growth: ModuleType, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    point = growth.measure(corpus, growth.in_order(corpus, ["middle", "small"]), 600)
    assert (point.files, point.megabytes) == (3, 0.039)
    assert point.finished
    assert 0 < point.lint.cpu < point.parse.cpu, "files without a candidate are not parsed by libcst"
    assert point.lint.peak > 5
    growth.report(point, 600)
    assert "given up" not in capsys.readouterr().out


def test_a_run_that_takes_too_long_is_named(
    growth: ModuleType, corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "COMMAND", (sys.executable, "-c", "while True: pass"))
    point = growth.measure(corpus, growth.in_order(corpus, ["small"]), 1)
    assert not point.finished
    growth.report(point, 1)
    assert "given up" in capsys.readouterr().out


def test_the_exponent_is_that_of_the_growth(growth: ModuleType) -> None:
    points = [growth.Point(1, size, None, None) for size in (1.0, 3.0, 10.0)]
    assert growth.exponent(points, lambda point: 5 * point.megabytes) == pytest.approx(1)
    assert growth.exponent(points, lambda point: point.megabytes**2) == pytest.approx(2)
