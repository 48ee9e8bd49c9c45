"""The projects in the style of users: their table, and what a report of one counts for."""

from __future__ import annotations

import importlib
import json
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from linting import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script, which lies with its archive and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("written")


@pytest.mark.parametrize(("number", "least"), [(1, 54), (2, 48), (3, 40), (4, 18)])
def test_the_first_run_is_that_of_the_programs_in_the_archive(script: ModuleType, number: int, least: int) -> None:
    with tarfile.open(script.programs(number)) as archive:
        names = [name for name in archive.getnames() if name.endswith("/main.py") and name.count("/") == 2]
    programs = {name.removesuffix("/main.py") for name in names}
    rows = script.recorded(number)
    assert len({row.program for row in rows}) == len(rows) == least
    assert {row.program for row in rows} <= programs
    assert all(row.found <= row.lines and row.waits_found <= row.waits for row in rows)
    assert all(row.often_found + row.inherent <= row.often <= row.lines for row in rows)
    assert all(row.waits_found + row.waits_inherent <= row.waits + 0.01 for row in rows)


def line(row: int, waits: float, *findings: str, via: str | None = None) -> dict[str, Any]:
    """A line of a report, with one operator that waits, perhaps inside of a library."""
    way = {"name": "copy_", "via": via and {"filename": via, "row": 1}, "waits_per_step": waits}
    place = {"filename": "main.py", "row": row}
    return {"location": place, "waits_per_step": waits, "findings": list(findings), "operators": [way]}


def test_lines_that_wait_count_and_those_with_a_finding_are_found(script: ModuleType, tmp_path: Path) -> None:
    program = ["loss.item()", "f(x)", "y = x", "loss.backward()", "torch.save(x)", "torch.load(x)", "g(x)"]
    (tmp_path / "main.py").write_text("\n".join(program))
    known = [line(1, 2.0, "TPL101"), line(2, 0.5), line(3, 0.0)]
    own = [
        line(4, 1.0),
        line(5, 0.25, via="lib/torch/storage.py"),
        line(6, 1.0, via="lib\\torch\\serialization.py"),
        line(7, 1.0, via="lib/torch/functional.py"),
    ]
    report = {
        "loops": [{"lines": known[:1]}, {"lines": [*known[1:], *own]}],
        "not_seen": [{"cost": None}, {"cost": {"loses": "wait"}}, {}],
    }
    row = script.row_of("a/b", report, tmp_path)
    assert row == ("a/b", 6, 1, 5.75, 2.0, 3, 5, 1, 2, 2.25, 1)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_first_run_of_the_fixes_is_that_of_the_same_programs(script: ModuleType, number: int) -> None:
    fixes = script.written_fixes
    rows = fixes.recorded(script.ROUNDS[number])
    known = {row.program: row for row in script.recorded(number)}
    assert {row.program for row in rows} == set(known)
    assert all(row.safe <= row.waits and row.unsafe <= row.waits for row in rows)
    assert all({row.safe_prints, row.unsafe_prints} <= set(fixes.VERDICTS) for row in rows)
    assert [row.program for row in rows if row.safe_prints != fixes.SAME] == []


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ("loss 0.1234 in epoch 3", "loss 0.1235 in epoch 3", True),
        ("loss 0.1234", "loss 0.1434", False),
        ("loss 1.2e-05", "loss 1.3e-05", True),
        ("epoch 3", "epoch 4", False),
        ("loss 0.5", "cost 0.5", False),
        ("loss nan", "loss 0.5", False),
    ],
)
def test_lines_are_alike_but_for_the_last_digits_of_numbers(
    script: ModuleType, before: str, after: str, alike: bool
) -> None:
    assert script.written_fixes.nearly(before, after) is alike


def test_what_a_fixed_program_prints_is_judged_by_its_lines(script: ModuleType) -> None:
    fixes = script.written_fixes
    printed = [fixes.Difference(fixes.PRINTED, f"[{row}]", "") for row in (1, 2)]
    assert fixes.verdict_of([], "a\n", "a\n") == fixes.SAME
    assert fixes.verdict_of(printed, "0.12\n3", "0.13\n3") == fixes.ROUNDED
    assert fixes.verdict_of(printed, "0.12\n3", "0.13\n4") == fixes.DIFFERENT
    assert fixes.verdict_of(printed, "0.12 in 1.5s\n3 ms", "0.12 in 2.5s\n4 ms") == fixes.SAME
    assert fixes.verdict_of(printed, "loss 1  time: 0.11\n3", "loss 1  time: 0.19\n3") == fixes.SAME
    assert fixes.verdict_of([fixes.Difference(fixes.PRINTED, "", "")], "a", "a\nb") == fixes.DIFFERENT


def test_totals_tell_what_the_fixes_leave(script: ModuleType) -> None:
    fixes = script.written_fixes
    rows = [
        fixes.Row("a/b", 4.0, 2.0, 1.0, fixes.SAME, fixes.ROUNDED),
        fixes.Row("a/c", 6.0, 6.0, 6.0, fixes.SAME, fixes.FAILS),
    ]
    assert list(fixes.told(rows)) == [
        "2 programs that ran, and wait 10 times per step",
        "--fix leaves 8 waits per step: 20% less, 25% in the mean of the programs; 1 are left as they were",
        "  they print the same: 2, other last digits: 0, something else: 0, no longer run: 0",
        "--unsafe-fixes leaves 7 waits per step: 30% less, 38% in the mean of the programs; 1 are left as they were",
        "  they print the same: 0, other last digits: 1, something else: 0, no longer run: 1",
    ]
    own = [rows[0]._replace(inherent=2.0), rows[1]]
    assert [line for line in fixes.told(own) if "own" in line] == [
        "  without the waits of torch's own: 50% less in the mean",
        "  without the waits of torch's own: 75% less in the mean",
    ]


def test_a_gpu_counts_what_the_simulated_device_counts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        of_gpu, script = importlib.import_module("written_gpu"), importlib.import_module("written")
    simulated = {(number, row.program): row.waits for number in script.ROUNDS for row in script.recorded(number)}
    counted = of_gpu.counted()
    assert len({(row.round, row.program) for row in counted}) == len(counted)
    same = [row for row in counted if row.waits == pytest.approx(simulated[row.round, row.program], rel=0.01, abs=0.01)]
    assert len(same) >= 0.9 * len(counted) > 0
    assert {(row.round, row.program) for row in of_gpu.timed()} <= set(simulated)


def test_runs_become_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    of_gpu = importlib.import_module("written_gpu")
    monkeypatch.setattr(of_gpu, "COUNTS", tmp_path / "counts.tsv")
    monkeypatch.setattr(of_gpu, "TIMES", tmp_path / "times.tsv")
    common = {"status": "ok", "round": 2, "program": "rl/01_x"}
    runs = [
        {**common, "mode": "count", "variant": "unfixed", "counts": {"waits": 2.5}},
        {**common, "mode": "count", "variant": "safe", "counts": {"waits": 1.5}},
        {**common, "mode": "time", "variant": "safe", "ms": [1.0, 2.0]},
        {**common, "mode": "time", "variant": "safe", "ms": [4.0]},
        {**common, "mode": "time", "variant": "unsafe", "ms": []},
        {**common, "status": "failed", "variant": "unfixed"},
    ]
    (tmp_path / "runs").write_text("\n".join(map(json.dumps, runs)))
    of_gpu.record([tmp_path / "runs"])
    assert of_gpu.counted() == [(2, "rl/01_x", 2.5)]
    assert of_gpu.timed() == [(2, "rl/01_x", "safe", 3, 2.0)]
