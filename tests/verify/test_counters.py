"""The debug mode is heard through true warnings from C++, and compared with profiles that are made up."""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections import Counter

import pytest
import torch
from made_up_profile import two_steps
from torch.utils import _device

from torchperf_lint.verify.counters import Counters, calls, debug_mode, disagreement, runtime
from torchperf_lint.verify.counters.patches import Patches
from torchperf_lint.verify.events import Event, Kind, Place, Recorder

# ---- detector 1: a warning that C++ makes of itself stands in for the debug mode's


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def listening(recorder, monkeypatch):
    """A debug mode that listens to what `wait` makes PyTorch warn of, from C++ as a GPU would."""
    modes = ["default"]
    monkeypatch.setattr(debug_mode, "MESSAGE", "std")
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: int(modes[-1] == "warn"))
    mode = debug_mode.DebugMode(recorder)
    mode.start()
    yield mode
    mode.stop()


def wait():
    torch.std(torch.ones(1))


def row_of(function, offset=1):
    return function.__code__.co_firstlineno + offset


def rows(recorder):
    return [each.where.row for each in recorder.events]


def test_every_repetition_of_a_wait_is_an_event_at_its_line(listening, recorder):
    for _ in range(3):
        wait()
    assert [(each.kind, each.where, each.waits) for each in recorder.events] == [
        (Kind.READ, Place(__file__, row_of(wait)), True)
    ] * 3
    assert listening.reported == {None: 3}


def ignoring():
    warnings.simplefilter("ignore")
    wait()


def raising():
    warnings.filterwarnings("error")
    wait()


def resetting():
    warnings.resetwarnings()
    warnings.filterwarnings("once")
    wait()
    wait()


def catching():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        wait()
    assert not caught
    wait()


def showing():
    warnings.showwarning = lambda *_, **__: pytest.fail("the program was shown the wait")
    wait()


def logging_them():
    logging.captureWarnings(True)
    try:
        wait()
    finally:
        logging.captureWarnings(False)


@pytest.mark.parametrize(
    ("program", "waits"),
    [(ignoring, 1), (raising, 1), (resetting, 2), (catching, 2), (showing, 1), (logging_them, 1)],
)
def test_a_program_that_plays_with_warnings_hides_no_wait(listening, recorder, program, waits):
    with warnings.catch_warnings():
        program()
    assert len(recorder.events) == waits


def test_other_warnings_go_where_they_always_go(listening, recorder):
    with pytest.warns(UserWarning, match="something else"):
        warnings.warn("something else", stacklevel=1)
    assert not recorder.events


def test_a_wait_in_a_thread_is_seen_there(listening, recorder):
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert rows(recorder) == [row_of(wait)]


def test_a_wait_in_a_backward_function_is_seen_there(listening, recorder):
    class Waiting(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            wait()
            return grad

    Waiting.apply(torch.ones(1, requires_grad=True)).backward()
    assert rows(recorder) == [row_of(wait)]


def test_waits_are_counted_in_the_step_that_they_happen_in(listening, recorder):
    recorder.begin_step(0)
    wait()
    recorder.begin_step(0)
    wait()
    wait()
    recorder.active = False
    wait()
    assert listening.reported == {0: 1, 1: 2}
    assert [each.step for each in recorder.events] == [0, 1, 1]


def test_a_claimed_wait_is_an_event_of_the_claimant_only(listening, recorder):
    with listening.claim("copy") as claim:
        wait()
        wait()
        assert listening.claimed
        assert claim.waits == 2
        claim.waits -= 1
    assert [each.operator for each in recorder.events] == ["copy"]
    assert listening.reported == {None: 2}
    assert not listening.claimed


def test_what_the_measuring_does_counts_for_nothing(listening, recorder):
    with listening.unheard():
        wait()
    assert (recorder.events, listening.reported) == ([], {})


def test_the_warnings_module_is_left_as_it_was(recorder, monkeypatch):
    names = ("filterwarnings", "simplefilter", "resetwarnings", "_showwarnmsg")
    before = [getattr(warnings, name) for name in names]
    modes = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    mode = debug_mode.DebugMode(recorder)
    with warnings.catch_warnings():
        mode.start()
        assert [getattr(warnings, name) for name in names] != before
        assert mode.stop() is False  # something else turned it off
    assert [getattr(warnings, name) for name in names] == before
    assert modes == ["warn", "default"]


@pytest.fixture
def watched(recorder, listening):
    """The watched calls of a process without a GPU, begun before anything looked for constructors."""
    _device._device_constructors.cache_clear()
    watched = calls.Calls(recorder, listening)
    watched.start()
    yield watched
    watched.stop()


def test_a_stream_that_is_waited_for_is_an_explicit_wait_though_the_debug_mode_reports_it(
    recorder, listening, monkeypatch
):
    monkeypatch.setattr(torch.cuda.Stream, "synchronize", lambda stream: wait())
    watched = calls.Calls(recorder, listening)
    watched.start()
    torch.cuda.Stream.synchronize(None)
    watched.stop()
    assert [(each.kind, each.operator) for each in recorder.events] == [(Kind.SYNCHRONIZE, "Stream.synchronize")]
    assert listening.reported == {None: 1}


def test_a_watched_constructor_still_heeds_the_default_device(watched):
    with torch.device("meta"):
        assert torch.tensor(1.0).device.type == "meta"
    assert torch.tensor(1.0).device.type == "cpu"


def test_a_watched_call_passes_errors_and_the_waits_before_them_on(watched, recorder, monkeypatch):
    class Awkward:
        def __len__(self):
            wait()
            raise LookupError

        def __getitem__(self, index):
            raise LookupError

    with pytest.raises(LookupError):
        torch.tensor(Awkward())
    assert {(each.kind, each.operator) for each in recorder.events} == {(Kind.READ, "tensor")}


def test_patches_put_back_own_and_inherited_attributes():
    class Base:
        def name(self):
            return "base"

    class Derived(Base):
        def other(self):
            return "other"

    patches = Patches()
    for name in ("name", "other"):
        patches.replace(Derived, name, lambda original: lambda self: f"<{original(self)}>")
    patches.replace(Derived, "name", lambda original: lambda self: f"<{original(self)}>")
    assert (Derived().name(), Derived().other()) == ("<<base>>", "<other>")
    patches.undo()
    assert (Derived().name(), Derived().other()) == ("base", "other")
    assert "name" not in vars(Derived)


# ---- the two together


def step_of(number=2, debug_mode=0, events=(), counted=()):
    return disagreement.Step(number, debug_mode, Counter(dict(events)), Counter(dict(counted)))


AGREED = step_of(
    debug_mode=3,
    events={"read": 1, "to device": 2, "pinned to device": 1, "to host": 1, "torch.cuda.synchronize": 1},
    counted={
        "cudaStreamSynchronize": 3,
        "cudaDeviceSynchronize": 1,
        "Memcpy HtoD (Pinned -> Device)": 1,
        "Memcpy HtoD (Pageable -> Device)": 1,
        "Memcpy DtoH (Device -> Pageable)": 2,
    },
)


def test_detectors_that_agree_leave_nothing_to_say():
    assert disagreement.disagreements([AGREED, AGREED._replace(number=3)]) == []


def test_steps_without_a_profile_are_not_compared():
    assert disagreement.disagreements([AGREED._replace(debug_mode=9, runtime=None)]) == []


@pytest.mark.parametrize(
    ("events", "counted", "sentence"),
    [
        ({}, {"cudaStreamSynchronize": 2}, "saw 4 cudaStreamSynchronize per step, the debug mode reported 3."),
        ({}, {"cudaEventSynchronize": 2}, "saw 1 cudaEventSynchronize per step, the program asked for 0."),
        ({"torch.cuda.synchronize": 3}, {}, "saw 1 cudaDeviceSynchronize per step, the program asked for 2.5."),
        ({"to host": 4}, {}, "saw 2 copies to host per step, the watched calls 3."),
        ({"pinned to device": 1}, {}, "saw 1 copies from pinned memory to the device per step, the watched calls 1.5."),
        ({}, {"Memcpy HtoD (Pageable -> Device)": 2}, "saw 5 copies between host and device per step, the watched"),
    ],
)
def test_a_disagreement_is_spelled_out(events, counted, sentence):
    other = AGREED._replace(number=3, events=AGREED.events + Counter(events), runtime=AGREED.runtime + Counter(counted))
    (found,) = disagreement.disagreements([AGREED, other])
    assert sentence in found


def test_waits_in_other_steps_are_a_disagreement():
    one, none = step_of(debug_mode=1), step_of(3, counted={"cudaStreamSynchronize": 1})
    (found,) = disagreement.disagreements([one, none])
    assert "in other steps" in found


def test_counts_of_both_detectors_are_joined_by_step(profile):
    def event(kind, step, **more):
        return Event(kind, "operator", step, Place("/program.py", 1), None, True, **more)

    events = [event(Kind.READ, None), event(Kind.TO_DEVICE, 2, pinned=True), event(Kind.SYNCHRONIZE, 3)]
    outside, second, third = disagreement.join({None: 1, 2: 1}, events, runtime.counts(profile))
    assert outside == (None, 1, {"read": 1}, None)
    assert second[:3] == (2, 1, {"to device": 1, "pinned to device": 1})
    assert third[:3] == (3, 0, {"operator": 1})
    assert third.runtime["cudaEventSynchronize"] == 1
    assert json.loads(json.dumps(third.as_json()))["runtime"]["cudaDeviceSynchronize"] == 1


@pytest.fixture
def profile():
    return two_steps()


class MadeUp:
    """A profile that was made up: the listener that it would be, and its end."""

    def __init__(self, found):
        self.failure = None
        self.steps = []
        self._found = found

    def on_step(self, step):
        self.steps.append(step)

    def finish(self):
        return self._found


@pytest.fixture
def counting(recorder, listening, monkeypatch):
    """Counters that hear true warnings from C++, as there is no GPU."""
    listening.stop()
    return Counters(recorder)


def four_steps(recorder):
    for _ in range(4):
        recorder.begin_step(0)
        wait()
    recorder.go_to(None)
    recorder.active = False


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_program_is_counted_without_a_profile_where_there_can_be_none(recorder, counting):
    before = dict(vars(torch.Tensor))
    counting.start()
    assert "to" in vars(torch.Tensor)
    four_steps(recorder)
    report = json.loads(json.dumps(counting.stop()))
    assert dict(vars(torch.Tensor)) == before
    assert [(each["step"], each["debug_mode"], each["events"]) for each in report["steps"]] == [
        (step, 1, {"read": 1}) for step in range(4)
    ]
    (remark,) = report["disagreements"]
    assert "no call of the CUDA runtime" in remark
    assert not recorder.on_step


def test_a_program_is_counted_by_both_detectors(recorder, counting, profile, monkeypatch):
    counting._profile = MadeUp(profile)
    counting.start()
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    four_steps(recorder)
    report = json.loads(json.dumps(counting.stop()))
    assert [each["runtime"] and each["runtime"]["cudaStreamSynchronize"] for each in report["steps"]] == [
        None,
        None,
        1,
        1,
    ]
    changed, event, device, copies = report["disagreements"]
    assert "changed the debug mode" in changed
    assert "0.5 cudaEventSynchronize per step, the program asked for 0" in event
    assert "0.5 cudaDeviceSynchronize per step, the program asked for 0" in device
    assert "2 copies between host and device per step, the watched calls and the debug mode explain 1" in copies
    assert report["timeline"]["steps"]
