"""Declarations that are kept between runs or shipped: always those of the modules, whatever lies in their place."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint.engine import declarations
from torchperf_lint.engine.declarations import LateCheck, Modules, declared_in

MODULES = Modules()
DECLARED = tuple(sorted(rule for name in MODULES.names for rule in declared_in(name).values()))
RULE = "torchperf_lint/rules/sync/item_in_hot_loop.py"
SUMMARY = "a device scalar is read on the host in every step"
PROGRAM = """\
import json, sys
from torchperf_lint.engine import registry
print(json.dumps([registry.find_rule("TPL101").summary, [each for each in sys.modules if ".rules." in each]]))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where declarations are kept, in the test's own folder."""
    place = tmp_path / "cache" / "declarations.json"
    monkeypatch.setattr(declarations, "_beside_byte_code", lambda: str(place))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return place


@pytest.fixture
def copy(tmp_path):
    """The linter in a folder of its own."""
    shutil.copytree(ROOT / "torchperf_lint", tmp_path / "torchperf_lint", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def declared_by(copy: Path, **variables: str) -> tuple[str, list[str]]:
    """What TPL101 declares in a run of the copied linter, and which modules of rules that has loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=copy,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    summary, loaded = json.loads(done.stdout)
    return summary, loaded


def test_what_is_kept_is_what_the_modules_declare(place):
    assert MODULES.kept() is None
    MODULES.keep(DECLARED)
    kept = MODULES.kept()
    assert [rule._replace(check=None) for rule in kept] == [rule._replace(check=None) for rule in DECLARED]
    for late, declared in zip(kept, DECLARED, strict=True):
        assert isinstance(late.check, LateCheck)
        assert declared_in(late.check.__module__)[late.code].check is declared.check


def test_a_second_run_loads_no_rule_and_sees_every_change(copy):
    summary, loaded = declared_by(copy)
    assert summary == SUMMARY
    assert len(loaded) >= len(DECLARED)
    assert declared_by(copy) == (SUMMARY, [])
    path = copy / RULE
    path.write_text(path.read_text(encoding="utf-8").replace("is read on", "is sent to"), encoding="utf-8")
    os.utime(path, (path.stat().st_mtime + 2,) * 2)  # Python itself sees no change within the same second
    changed = SUMMARY.replace("is read on", "is sent to")
    assert declared_by(copy)[0] == changed, "a module of the same size has changed"
    assert declared_by(copy) == (changed, [])
    (copy / "torchperf_lint" / "rules" / "ops" / "_new.py").write_text("", encoding="utf-8")
    assert declared_by(copy)[1], "a module has come"


@pytest.mark.slow
def test_nothing_is_kept_where_python_keeps_no_byte_code(copy):
    declared_by(copy, PYTHONDONTWRITEBYTECODE="1")
    assert not list(copy.rglob("*declarations.json"))
    assert declared_by(copy, PYTHONDONTWRITEBYTECODE="1")[1]


@pytest.mark.parametrize("shipped_for_these", [True, False])
def test_a_wheel_brings_declarations_for_its_own_modules(copy, shipped_for_these):
    place = copy / "torchperf_lint" / "_declarations.json"
    MODULES.ship(str(place), DECLARED)
    path = copy / RULE
    if not shipped_for_these:
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    summary, loaded = declared_by(copy, PYTHONDONTWRITEBYTECODE="1")
    assert (summary, not loaded) == (SUMMARY, shipped_for_these)


@pytest.mark.parametrize(
    "torn",
    [
        lambda document: document["rules"].append([]),
        lambda document: document["rules"][0].pop(),
        lambda document: document["rules"].append("a rule"),
        lambda document: document.update(stamp=[]),
        lambda document: document.pop("stamp"),
        lambda document: document.update(rules=None),
        lambda document: document["rules"][0].__setitem__(1, "os-path"),
        lambda document: document["rules"][0].__setitem__(2, "NOTHING"),
        lambda document: document["rules"][0].__setitem__(2, 1),
        lambda document: document["rules"][0].__setitem__(5, "loud"),
        lambda document: document["rules"][0].__setitem__(8, [[1]]),
        lambda document: document["rules"][0].__setitem__(8, None),
    ],
)
def test_what_is_torn_or_foreign_is_not_believed(place, torn):
    MODULES.keep(DECLARED)
    document = json.loads(place.read_bytes())
    torn(document)
    place.write_text(json.dumps(document), encoding="utf-8")
    assert MODULES.kept() is None


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_not_believed(place, data):
    place.parent.mkdir()
    place.write_bytes(data)
    assert MODULES.kept() is None
    MODULES.keep(DECLARED)
    assert MODULES.kept() is not None


def test_a_folder_that_cannot_be_used_costs_only_time(place):
    place.parent.write_bytes(b"no folder")
    MODULES.keep(DECLARED)
    assert MODULES.kept() is None


@pytest.mark.parametrize("name", MODULES.names)
def test_declarations_are_made_of_what_their_stamp_covers(name):
    tree = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_bytes())
    origin = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    decorators = [each for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for each in node.decorator_list]
    rules = [each for each in decorators if isinstance(each, ast.Call) and ast.unparse(each.func) == "rule"]
    for used in (each for rule in rules for each in ast.walk(rule) if isinstance(each, ast.Name)):
        source = origin.get(used.id, "")
        covered = source.startswith(("torchperf_lint.engine.", "torchperf_lint.knowledge"))
        assert not source or covered, f"`{used.id}` comes from {source}, whose changes are not seen"
