"""The profiler's entries become counts by step and a timeline, and the real profiler marks the steps."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from itertools import pairwise

import pytest
import synthetic
import torch
from made_up_profile import KERNEL, Kineto, two_steps

from torchperf_lint.verify.counters import runtime
from torchperf_lint.verify.counters.timeline import MOST, timeline


@pytest.fixture
def profile():
    return two_steps()


def test_calls_belong_to_the_step_they_are_made_in_and_copies_to_the_step_that_asked(profile):
    assert runtime.counts(profile) == {
        2: {
            "cudaStreamSynchronize": 1,
            "cudaMemcpyAsync": 2,
            "Memcpy DtoH (Device -> Pageable)": 1,
            "Memcpy HtoD (Pinned -> Device)": 1,
            "kernels": 1,
        },
        3: {
            "cudaStreamSynchronize": 1,
            "cudaMemcpyAsync": 2,
            "Memcpy DtoH (Device -> Pageable)": 1,
            "Memcpy HtoD (Pageable -> Device)": 1,
            "cudaEventSynchronize": 1,
            "cudaDeviceSynchronize": 1,
            "kernels": 1,
        },
    }


def test_what_fills_memory_is_no_kernel():
    kineto = Kineto()
    kineto.add("torchperf-lint step 2", 0, 100)
    kineto.call("cudaMemsetAsync", 10, then="Memset (Device)", correlation=1)
    kineto.call("cudaLaunchKernel", 20, then=KERNEL, correlation=2)
    assert runtime.counts(runtime.activities(kineto.events)) == {2: {"kernels": 1}}


def test_a_real_devices_operators_are_its_kernels():
    steps = [
        {"step": 2, "runtime": {"kernels": 12}},
        {"step": 3, "runtime": {"kernels": 9}},
        {"step": 4, "runtime": None},
    ]
    assert synthetic.run(counters={"steps": steps}).other_counts()["operators"] == Fraction(21, 2)
    assert synthetic.run(operators_in=[[0, 4], [1, 4], [2, 4], [3, 4]]).other_counts()["operators"] == 4


def test_copies_are_told_by_direction_and_memory(profile):
    first, second = runtime.counts(profile).values()
    assert [runtime.copies(each, "HtoD") for each in (first, second)] == [1, 1]
    assert [runtime.copies(each, "HtoD", "Pinned") for each in (first, second)] == [1, 0]
    assert [runtime.copies(each, "DtoH", "Pageable") for each in (first, second)] == [1, 1]


def test_marks_that_the_profiler_repeats_on_the_device_are_left_out(profile):
    assert [each.name for each in profile if each.on_device and "Memcpy" not in each.name] == [KERNEL] * 2


def test_the_timeline_begins_at_the_second_step_and_ends_with_the_last(profile):
    drawn = timeline(profile)
    assert drawn["steps"] == [[3, 0.0, 1.0]]
    assert [entry[0] for entry in drawn["host"]] == [
        *("cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"),
        *("cudaMemcpyAsync", "cudaEventSynchronize", "cudaDeviceSynchronize"),
    ]
    assert drawn["device"][0] == ["at::native::vectorized_elementwise_kernel", 0.15, 0.02, 7]
    assert drawn["device"][2] == ["Memcpy HtoD (Pinned -> Device)", 0.3, 0.02, 7]
    assert drawn["left_out"] == 0


def test_a_crowded_timeline_says_how_much_it_leaves_out():
    kineto = Kineto()
    kineto.add(f"{runtime.MARK}2", 0, MOST * 10)
    for start in range(MOST + 3):
        kineto.call("cudaLaunchKernel", start)
    drawn = timeline(runtime.activities(kineto.events))
    assert (len(drawn["host"]), drawn["left_out"]) == (MOST, 3)


def test_an_empty_profile_has_no_timeline():
    assert timeline([])["steps"] == []


class Unheard:
    """Counts how often the profile asks not to be heard."""

    def __init__(self):
        self.times = 0

    @contextlib.contextmanager
    def __call__(self):
        self.times += 1
        yield


def run_profiled(profile, steps, work=lambda: torch.ones(2).sum()):
    for step in range(steps):
        profile.on_step(step)
        work()
    profile.on_step(None)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_the_real_profiler_marks_the_third_step_and_those_after_it():
    unheard = Unheard()
    profile = runtime.Profile(unheard, steps=4)
    run_profiled(profile, 9)
    marked = runtime.windows(profile.finish())
    assert [window.step for window in marked] == [2, 3, 4, 5]
    assert all(before.end <= after.start for before, after in pairwise(marked))
    assert unheard.times == 2  # when it begins and when it ends
    assert "no call of the CUDA runtime" in profile.failure  # as here there is no GPU


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_profile_ends_with_its_loop_and_does_not_begin_again():
    profile = runtime.Profile(Unheard())
    run_profiled(profile, 5)
    profile.on_step(5)
    profile.on_step(None)
    assert [window.step for window in runtime.windows(profile.finish())] == [2, 3, 4]


def test_too_few_steps_are_not_profiled():
    profile = runtime.Profile(Unheard())
    run_profiled(profile, 2)
    assert profile.finish() == []
    assert "too few" in profile.failure


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_program_with_a_profiler_of_its_own_keeps_it():
    profile = runtime.Profile(Unheard())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        run_profiled(profile, 4)
        assert profile.finish() == []
    assert profile.failure == "the program uses the profiler itself"
    assert any(each.key == "aten::sum" for each in own.key_averages())
