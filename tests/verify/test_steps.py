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


def _optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)


def _steady_of(recorder, steps, name):
    """In which steady steps the events lie, when all is known."""
    steps.settle()
    steady = steps.steady()
    return [step for step in _steps_of(recorder, name) if step in steady]


def test_a_loop_of_one_batch_in_each_pass_makes_one_step_in_each(recorder, steps):
    optimizer = _optimizer()
    for _ in range(6):
        next(iter(DataLoader(range(9))))
        _read(recorder, "before")
        optimizer.step()
        _read(recorder, "after")
    assert _steady_of(recorder, steps, "before") == _steady_of(recorder, steps, "after")
    assert len(steps.steady()) == 3, "two warm up, and the last has no end"


def test_a_pass_that_is_left_while_its_iterator_lives_on_is_over(recorder, steps):
    optimizer, data, kept = _optimizer(), list(range(2)), []
    for _ in range(6):
        kept.append(iter(DataLoader(data)))
        next(kept[-1])
        optimizer.step()
        for _ in DataLoader(range(3)):  # a validation run, inside of the step
            _read(recorder, "inner")
        _read(recorder, "outer")
    assert len(_steady_of(recorder, steps, "outer")) == 3
    assert len(_steady_of(recorder, steps, "inner")) == 6 * 3 - 2


def test_several_updates_with_one_batch_are_the_steps(recorder, steps):
    optimizer = _optimizer()
    for _ in range(4):
        next(iter(DataLoader(range(9))))
        for _ in range(3):
            _read(recorder, "update")
            optimizer.step()
    assert len(steps.steady()) == 4 * 3 - 3
    assert len(_steady_of(recorder, steps, "update")) == 4 * 3 - 3


def test_a_batch_that_is_only_looked_at_makes_no_loop(recorder, steps):
    optimizer, loader = _optimizer(), DataLoader(range(4))
    for _ in range(5):
        next(iter(loader))
        _read(recorder, "looked at")
        for _ in loader:
            optimizer.step()
    assert _steady_of(recorder, steps, "looked at") == []
    assert len(steps.steady()) == 5 * 4 - 2


def _one_ahead(loader):
    batches = iter(loader)
    batch = next(batches)
    for following in batches:
        yield batch
        batch = following
    yield batch


def test_in_a_loop_that_fetches_ahead_no_step_goes_without_its_batch(recorder, steps):
    optimizer = _optimizer()
    for _ in range(3):
        for _ in _one_ahead(DataLoader(range(5))):
            _read(recorder, "train")
            optimizer.step()
    assert len(_steady_of(recorder, steps, "train")) == len(steps.steady()) == 3 * 4 - 1


def test_a_loop_that_fetches_its_only_batch_ahead_is_counted(recorder, steps):
    optimizer = _optimizer()
    for _ in range(6):
        for _ in _one_ahead(DataLoader(range(1))):
            _read(recorder, "train")
            optimizer.step()
    assert len(_steady_of(recorder, steps, "train")) == 3


def test_training_that_uses_a_loader_only_before_has_its_optimizers_steps(recorder, steps):
    optimizer = _optimizer()
    for _ in list(DataLoader(range(6))):
        _read(recorder, "train")
        optimizer.step()
    assert len(_steady_of(recorder, steps, "train")) == 3


def test_what_a_rollout_does_for_an_update_is_the_updates(recorder, steps):
    optimizer, policy = _optimizer(), torch.nn.Sequential(torch.nn.Linear(1, 1))
    for _ in range(6):
        with torch.no_grad():
            for _ in range(4):
                policy(torch.ones(1))
                _read(recorder, "rollout")
        optimizer.step()
    assert len(steps.steady()) == steps.made - 3 == 3
    assert len(_steady_of(recorder, steps, "rollout")) == 3 * 4
    assert [each.step for each in recorder.events[:4]] == [None] * 4


def test_batches_that_no_loader_gives_make_steps_where_no_gradient_is_wanted(recorder, steps):
    optimizer, model, loss = _optimizer(), torch.nn.Sequential(torch.nn.Linear(1, 1)), torch.nn.MSELoss()
    for _ in range(4):
        optimizer.step()
    x = torch.ones(1)
    with torch.no_grad():
        for _ in range(6):
            loss(model(x), x)
            _read(recorder, "evaluation")
        for _ in range(6):
            model(x)
            _read(recorder, "prediction")
    assert len(_steady_of(recorder, steps, "evaluation")) == 3, "two warm up, and the last has no end"
    assert len(_steady_of(recorder, steps, "prediction")) == 2, "and it is a loop from its second call on"


def test_a_single_prediction_is_no_loop(recorder, steps):
    model = torch.nn.Linear(1, 1)
    for _ in DataLoader(range(5)):
        pass
    with torch.no_grad():
        model(torch.ones(1))
    for _ in range(9):
        model(torch.ones(1))
    assert steps.lengths == [6]
    assert steps.made == 5


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


def test_compiled_modules_have_nothing_to_complain_of(steps):
    assert not torch.nn.modules.module._has_any_global_hook()


def test_nothing_is_marked_after_the_end(recorder):
    called = torch.nn.Module.__call__
    Steps(recorder).watch()()
    assert torch.nn.Module.__call__ is called
    for _ in DataLoader(range(3)):
        pass
    assert recorder.loops == []
