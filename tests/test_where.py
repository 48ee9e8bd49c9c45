"""The script that tells where the time goes: every module has a room, and what is counted adds up."""

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


def room(where: ModuleType, path: str) -> str | None:
    found: str | None = where.room_of(compile("pass", path, "exec"))
    return found


def test_time_is_counted_for_the_room_that_a_file_lies_in(where: ModuleType) -> None:
    assert room(where, str(PACKAGE / "model/domain/values.py")) == "values"
    assert room(where, str(PACKAGE / "model/project/file_symbols.py")) == "facts of each file"
    assert room(where, str(PACKAGE / "model/project/symbol_index.py")) == "links between files"
    assert room(where, str(PACKAGE / "cli.py")) == "the rest: engine, command line"
    assert room(where, "/usr/lib/site-packages/libcst/_nodes/expression.py") == where.LIBCST
    assert where.room_of(ast.parse.__code__) == where.PARSE
    assert where.room_of(ast.walk.__code__) is None, "what Python's library does is its caller's"
    assert where.room_of(json.dumps.__code__) is None


def test_every_room_is_that_of_a_module_which_is_there(where: ModuleType) -> None:
    for key in where.ROOMS:
        place = PACKAGE / key.replace(".", "/")
        assert place.is_dir() or place.with_suffix(".py").is_file(), key


def test_the_rooms_add_up_to_the_process(tmp_path: Path) -> None:
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
