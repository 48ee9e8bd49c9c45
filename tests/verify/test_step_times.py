"""The variants of a proved program are timed in turn, and what a GPU measured is printed with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import event, run

from torchperf_lint.engine import registry
from torchperf_lint.verify import step_times, tables
from torchperf_lint.verify.pairs import Case, Proof
from torchperf_lint.verify.runs import TIME_LIMIT
from torchperf_lint.verify.step_times import time_steps
from torchperf_lint.verify.workloads import Agreement, Workload

CASE = Case(Workload(Path("run_x.py"), registry.find_rule("TPL102"), (), Agreement()), None)
PROGRAMS = {"unfixed": b"slow", "safe": b"fast"}


def _proof(objections=()):
    counted = run([event(step=step) for step in range(4)])
    counted.report["counters"] = {"disagreements": ["the profiler saw 2 waits, the debug mode 1"]}
    return Proof(CASE, PROGRAMS, {"unfixed": counted, "safe": run()}, {"safe": list(objections)})


def _timed(milliseconds, peak, status="ok"):
    timed = run(status=status)
    steps = [{"step": step, "device_ms": ms, "host_ms": ms} for step, ms in enumerate(milliseconds)]
    timed.report["counters"] = {"mode": "time", "steps": steps, "peak_bytes": peak}
    return timed


@pytest.fixture
def started(monkeypatch):
    """The programs that were run for their times, in order; the first four steps of each are steady."""
    programs = []

    def run_variant(folder, case, program, device, libraries, *, mode, time_limit, launch):
        assert (device, mode, time_limit) == ("cuda", "time beside work", TIME_LIMIT)
        programs.append(program)
        return _timed([4, 5, 6, 5, 99], 3 * 2**20) if program == b"slow" else _timed([2, 2, 3, 2, 99], 2**20)

    monkeypatch.setattr(step_times, "run_variant", run_variant)
    return programs


def test_variants_take_turns_and_only_steady_steps_count(started, tmp_path):
    times = time_steps(_proof(), tmp_path, repetitions=3)
    assert started == [b"slow", b"fast"] * 3
    assert times.medians == {"unfixed": 5, "safe": 2}
    assert times.comparisons["safe"].ratio == 2.5
    assert times.peaks == {"unfixed": 3 * 2**20, "safe": 2**20}


def test_only_what_is_accepted_is_timed(started, tmp_path):
    assert time_steps(_proof(["results: 1 became 2"]), tmp_path) is None
    assert time_steps(_proof()._replace(objections={}), tmp_path) is None
    assert started == []


def test_a_run_that_fails_gives_no_times(monkeypatch, tmp_path):
    monkeypatch.setattr(step_times, "run_variant", lambda *_, **__: _timed([1, 1, 1, 1], 0, status="failed"))
    assert time_steps(_proof(), tmp_path) is None


def test_times_and_disagreements_are_printed(started, tmp_path):
    first, times, disagreement = tables.row(_proof(), (), time_steps(_proof(), tmp_path)).splitlines()
    assert first == "TPL102  x: 1 -> safe 0 waits per step; accepted"
    assert times.startswith("         safe: a step takes 2 ms for 5 ms, ratio 2.5 (95 % from ")
    assert times.endswith("; at most 1 MiB for 3 MiB")
    assert disagreement == "         unfixed: the profiler saw 2 waits, the debug mode 1"
