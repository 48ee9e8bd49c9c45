"""Steps are timed without a wait in between, and two variants compared with an interval."""

from __future__ import annotations

import pytest
import torch

from torchperf_lint.verify.counters import Counters, timing
from torchperf_lint.verify.events import Recorder


@pytest.fixture
def recorder():
    return Recorder()


class Clock:
    """A device whose clock advances by what it is told to do, and that must not be waited for between steps."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.waits = 0
        clock = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = clock.now

            def elapsed_time(self, end):
                assert clock.waits == 1
                return end.at - self.at

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "init", lambda: None)
        monkeypatch.setattr(torch.cuda, "synchronize", self.wait)
        monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 4096)

    def wait(self):
        self.waits += 1


def test_steps_are_timed_by_events_that_are_read_at_the_end(recorder, monkeypatch):
    clock = Clock(monkeypatch)
    counters = Counters(recorder, "time")
    counters.start()
    for duration in (5.0, 2.0, 2.5):
        recorder.begin_step(0)
        clock.now += duration
        assert clock.waits == 0
    recorder.go_to(None)
    clock.now += 100
    report = counters.stop()
    assert [(each["step"], each["device_ms"]) for each in report["steps"]] == [(0, 5.0), (1, 2.0), (2, 2.5)]
    assert all(each["host_ms"] >= 0 for each in report["steps"])
    assert (report["mode"], report["peak_bytes"]) == ("time", 4096)
    assert not recorder.events
    assert not recorder.on_step


def test_other_work_is_queued_after_each_steps_mark(recorder, monkeypatch):
    clock = Clock(monkeypatch)
    queued = []

    def sleep(cycles):
        queued.append(cycles)
        clock.now += cycles / 2_000_000

    def calibrated(event, end):
        return end.at - event.at

    monkeypatch.setattr(torch.cuda, "_sleep", sleep)
    monkeypatch.setattr(torch.cuda.Event, "elapsed_time", calibrated)
    counters = Counters(recorder, "time beside work")
    counters.start()
    assert set(queued) == {20_000_000}
    queued.clear()
    for duration in (3.0, 4.0):
        recorder.begin_step(0)
        clock.now += duration
    recorder.go_to(None)
    report = counters.stop()
    assert queued == [10_000_000, 10_000_000]
    assert [(each["step"], each["device_ms"]) for each in report["steps"]] == [(0, 8.0), (1, 9.0)]
    assert report["mode"] == "time beside work"


def test_a_step_that_another_loop_interrupts_is_the_sum_of_its_parts():
    boundaries = [(0, 0.0), (1, 10.0), (2, 13.0), (0, 15.0), (None, 16.0), (3, 20.0), (None, 21.0)]
    assert timing.step_times(boundaries) == {0: 11.0, 1: 3.0, 2: 2.0, 3: 1.0}


def test_variants_take_turns():
    assert timing.interleaved(["a", "b"], 3) == ["a", "b", "a", "b", "a", "b"]


def test_a_clear_gain_is_shown():
    usual = [10.0, 10.2, 9.9, 10.1, 9.8, 10.0, 10.3]
    before = [[*usual, 30.0], [step * 1.1 for step in usual], usual]
    after = [[step / 2 for step in usual], [*(step * 0.55 for step in usual), 25.0], [step / 2 for step in usual]]
    found = timing.compare(before, after)
    assert found.ratio == pytest.approx(2.0, abs=0.03)
    assert 1.9 < found.low <= found.ratio <= found.high < 2.1
    assert found.before.lower < found.before.median < found.before.upper
    assert found.after.median == pytest.approx(5.05, abs=0.06)
    assert found.repetitions == 3
    assert timing.compare(before, after) == found


def test_repetitions_that_differ_widen_the_interval():
    found = timing.compare([[2.0] * 5, [3.0] * 5, [8.0] * 5], [[1.0] * 5] * 3)
    assert found[:3] == (3.0, 2.0, 8.0)


def test_noise_is_not_shown_as_a_gain():
    before = [[10.0, 12.0, 9.0], [9.0, 10.0, 11.0], [12.0, 9.5, 10.0]]
    after = [[11.0, 9.0, 10.0], [10.0, 12.0, 9.0], [9.5, 10.5, 11.0]]
    found = timing.compare(before, after)
    assert found.low < 1 < found.high


@pytest.mark.parametrize(("before", "after"), [([], []), ([[1.0]], []), ([[1.0], []], [[1.0], [1.0]])])
def test_there_is_nothing_to_compare_without_steps(before, after):
    with pytest.raises(ValueError, match="repetitions"):
        timing.compare(before, after)


def test_an_unknown_mode_is_refused(recorder):
    with pytest.raises(ValueError, match="unknown mode"):
        Counters(recorder, "guess")
