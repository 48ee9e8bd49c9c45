"""The script that counts how many findings have a fix: its table adds up, and a share that falls is noticed."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint.engine.findings import NoFix
from torchperf_lint.engine.registry import find_rule

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def coverage() -> ModuleType:
    """The script, which lies beside the modules that it imports; a package of its name may be installed."""
    spec = importlib.util.spec_from_file_location("coverage_of_fixes", ROOT / "benchmarks" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


def test_committed_table_adds_up(coverage: ModuleType) -> None:
    table = coverage.kept()
    *rules, whole = table
    assert whole.rule == coverage.ALL
    named = {reason.identifier for reason in NoFix} | {"not-named", "-"}
    for row in table:
        assert row.findings == row.safe + row.unsafe + row.shown + row.none
        assert row.for_reason <= row.none
        assert row.reason in named
    for column in ("findings", "safe", "unsafe", "shown", "none"):
        assert getattr(whole, column) == sum(getattr(row, column) for row in rules)
    assert all(find_rule(row.rule) is not None and row.rule.startswith(coverage.COUNTED) for row in rules)


def test_findings_become_rows_and_rows_a_file(coverage: ModuleType, tmp_path: Path) -> None:
    found = [coverage.Counted("TPL102", "safe", ""), coverage.Counted("TPL102", None, "form")]
    found += [coverage.Counted("TPL101", None, "returned"), coverage.Counted("TPL101", None, "form")]
    table = coverage.rows(found)
    assert [tuple(row) for row in table] == [
        ("TPL101", 2, 0, 0, 0, 2, "form", 1),
        ("TPL102", 2, 1, 0, 0, 1, "form", 1),
        ("all", 4, 1, 0, 0, 3, "form", 2),
    ]
    coverage.record(table, tmp_path / "table.tsv")
    assert coverage.kept(tmp_path / "table.tsv") == table
    assert len(list(coverage.shown(table))) == 4


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ((100, 10, 10), (100, 10, 10), 0),
        ((100, 10, 10), (100, 8, 12), 1),  # fewer safe ones
        ((100, 10, 10), (100, 10, 4), 1),  # fewer in all
        ((100, 10, 10), (100, 4, 4), 2),
        ((100, 10, 10), (50, 5, 5), 0),  # half of the findings, the same share
    ],
)
def test_share_that_falls_is_noticed(
    coverage: ModuleType, old: tuple[int, int, int], new: tuple[int, int, int], lost: int
) -> None:
    before, now = (
        [coverage.Row("all", count, safe, unsafe, 0, count - safe - unsafe, "form", 1)]
        for count, safe, unsafe in (old, new)
    )
    assert len(list(coverage.worse(before, now))) == lost
