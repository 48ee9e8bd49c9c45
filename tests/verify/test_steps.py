"""Steps are cut where a loader gives a batch, loops inside loops have their own, and warm-up and end are left out."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from torchperf_lint.verify.events import Kind, Recorder
from torchperf_lint.verify.steps import EnoughSteps, Steps


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def steps(recorder):
    steps = Steps(recorder)
    end = steps.watch()
    yield steps
    end()


def _read(recorder, name):
    recorder.add(Kind.READ, name, waits=True)


def _steps_of(recorder, name):
    return [each.step for each in recorder.events if each.operator == name]


def test_each_batch_begins_a_step_and_the_end_of_the_loader_ends_them(recorder, steps):
    _read(recorder, "before")
    for _ in DataLoader(range(5)):
        _read(recorder, "inside")
    _read(recorder, "after")
    assert _steps_of(recorder, "before") == [None]
    assert _steps_of(recorder, "inside") == [0, 1, 2, 3, 4]
    assert _steps_of(recorder, "after") == [None]
    assert list(steps.steady()) == [2, 3, 4]


def test_what_follows_a_break_is_in_no_steady_step(recorder, steps):
    loader = DataLoader(range(9))
    for number, _ in enumerate(loader):
        if number == 5:
            break
    _read(recorder, "after")
    assert _steps_of(recorder, "after") == [5]
    assert list(steps.steady()) == [2, 3, 4]


def test_only_the_first_pass_of_a_line_warms_up(recorder, steps):
    for _ in range(2):
        for _ in DataLoader(range(4)):
            pass
    assert list(steps.steady()) == [2, 3, 5, 6, 7, 8]
    assert steps.made == 8


def test_each_line_that_loops_has_its_own_warm_up(recorder, steps):
    data = DataLoader(range(3))
    for _ in data:
        pass
    for _ in data:
        pass
    assert list(steps.steady()) == [2, 6]
    rows = [place.row for place in steps.steady().values()]
    assert rows[1] == rows[0] + 2


def test_the_outer_step_goes_on_after_a_loop_inside_it(recorder, steps):
    inner = DataLoader(range(3))
    for _ in DataLoader(range(2)):
        for _ in inner:
            _read(recorder, "inner")
        _read(recorder, "outer")
    assert _steps_of(recorder, "inner") == [1, 2, 3, 6, 7, 8]
    assert _steps_of(recorder, "outer") == [0, 5]


def test_an_abandoned_inner_loop_is_over(recorder, steps):
    for _ in DataLoader(range(2)):
        for _ in DataLoader(range(3)):
            break
    _read(recorder, "after")
    assert _steps_of(recorder, "after") == [None]


def test_without_a_loader_the_first_optimizer_ends_the_steps(recorder, steps):
    first, second = (torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1) for _ in range(2))
    for _ in range(5):
        _read(recorder, "inside")
        first.step()
        second.step()
    assert _steps_of(recorder, "inside") == [None, 0, 1, 2, 3]
    assert list(steps.steady()) == [2, 3]


def test_the_program_stops_after_as_many_steps_as_are_asked_for(recorder):
    end = Steps(recorder, limit=3).watch()
    try:
        seen = []
        with pytest.raises(EnoughSteps):
            seen.extend(iter(DataLoader(range(9))))
        assert len(recorder.loops) == 3
    finally:
        end()


def test_listeners_hear_of_each_step(recorder, steps):
    heard = []
    recorder.on_step.append(heard.append)
    for _ in DataLoader(range(2)):
        pass
    assert heard == [0, 1, 2, None]


def test_nothing_is_marked_after_the_end(recorder):
    Steps(recorder).watch()()
    for _ in DataLoader(range(3)):
        pass
    assert recorder.loops == []
