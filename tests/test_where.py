"""The profiling script: every module belongs to a package, and the counted times add up."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PACKAGE = ROOT / "torchperf_lint"


@pytest.fixture(scope="module")
def where() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("where")


def package(where: ModuleType, path: str) -> str | None:
    found: str | None = where.package_of(compile("pass", path, "exec"))
    return found


def test_time_counts_for_the_package_of_a_file(where: ModuleType) -> None:
    assert package(where, str(PACKAGE / "model/domain/values.py")) == "values"
    assert package(where, str(PACKAGE / "model/project/file_symbols.py")) == "facts of each file"
    assert package(where, str(PACKAGE / "model/project/symbol_index.py")) == "links between files"
    assert package(where, str(PACKAGE / "cli.py")) == "the rest: engine, command line"
    assert package(where, "/usr/lib/site-packages/libcst/_nodes/expression.py") == where.LIBCST
    assert where.package_of(ast.parse.__code__) == where.PARSE
    assert where.package_of(ast.walk.__code__) is None, "what Python's library does is its caller's"
    assert where.package_of(json.dumps.__code__) is None


def test_every_package_has_an_existing_module(where: ModuleType) -> None:
    for key in where.PACKAGES:
        place = PACKAGE / key.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), key


@pytest.mark.slow
def test_the_packages_add_up_to_the_process(tmp_path: Path) -> None:
    for path in sorted((ROOT / "fixtures" / "workloads").glob("*.py")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "pyproject.toml").touch()
    command = [sys.executable, str(ROOT / "benchmarks" / "where.py"), str(tmp_path), "--functions", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, _, *rows, function = done.stdout.splitlines()
    assert first.startswith("7 files, ")
    parse = float(first.rpartition(" ")[2])
    seconds = {row[:36].strip(): float(row[36:45]) for row in rows}
    of_parse = [float(row[53:62]) * parse for row in rows]
    assert of_parse == pytest.approx(list(seconds.values()), abs=0.01, rel=0.05)
    total = seconds.pop("all")
    assert total == pytest.approx(sum(seconds.values()), abs=0.005 * len(seconds))
    assert seconds["imports"] > 0
    assert max(seconds["values"], seconds["index and slices"]) > 0
    assert ": " in function
