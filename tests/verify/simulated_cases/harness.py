"""What the checks share: the recorder that the device writes to, and how results are compared."""

from __future__ import annotations

import contextlib

import torch

from torchperf_lint.verify.events import Recorder

recorder = Recorder()


@contextlib.contextmanager
def recorded():
    """The list of the events inside the block."""
    first = len(recorder.events)
    events: list = []
    yield events
    events += recorder.events[first:]


@contextlib.contextmanager
def raises(kind, text=""):
    """The block must raise this, with this text in it."""
    raised = None
    try:
        yield
    except kind as error:
        raised = error
    assert raised is not None, f"nothing raised {kind}: {text}"
    assert text in str(raised), f"{text!r} is not in {raised!r}"


def on_both(run, within: float | None = None) -> None:
    """What `run` gives for the device lies there, and equals what it gives for the host."""
    on_host, on_device = run("cpu"), run("cuda")
    assert any(each.is_cuda for each in tensors(on_device)), "nothing of it is on the device"
    assert_same(on_device, on_host, within)


def assert_same(found, expected, within: float | None = None) -> None:
    """Equal values; bit for bit, unless a tolerance is given."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(
            found.detach().cpu(), expected.detach().cpu(), rtol=within or 0.0, atol=within or 0.0, equal_nan=True
        )
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(found[key], expected[key], within)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b, within)
    else:
        assert found == expected, f"{found!r} != {expected!r}"


def tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from tensors(each)
