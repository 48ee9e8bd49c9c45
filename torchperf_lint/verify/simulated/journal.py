"""The device's reports: events for the recorder, and warnings of the synchronisation debug mode."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

import torch

from torchperf_lint.verify.events import Kind, Recorder, reported_in_debug_mode
from torchperf_lint.verify.simulated import pending

if TYPE_CHECKING:
    from types import FrameType

DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
_COMPLAINT = "called a synchronizing CUDA operation"
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_ENGINE = torch.autograd.graph.__file__
_SPREAD_EVENLY = {"MaxBackward1", "MinBackward1", "MedianBackward0", "NanmedianBackward0"}
"""Backward functions of `max()` and the like over a whole tensor, whose formula asks whether it lies on CUDA."""

recorder = Recorder()
_debug_mode = 0


def write_to(other: Recorder) -> None:
    """Send future events to this recorder."""
    global recorder
    recorder = other


def note(
    kind: Kind,
    operator: str,
    *,
    waits: bool,
    nbytes: int = 0,
    pinned: bool = False,
    asynchronous: bool = False,
    until: int | None = None,
) -> None:
    """Record an event that happens now, and warn or raise as the debug mode says.

    A wait is for all queued work, or for the work queued before the mark `until`. Where torch has a formula of its own
    for CUDA, the waits of the one for other devices are left out.
    """
    if waits and _is_read_for_other_devices():
        return
    recorder.add(kind, operator, waits=waits, nbytes=nbytes, pinned=pinned, asynchronous=asynchronous)
    if waits:
        pending.end(until)
    if _debug_mode and waits and reported_in_debug_mode(kind, operator):
        _complain()


def note_operator(name: str) -> None:
    """Record that an operator of the device is called now."""
    recorder.add_operator(name)


def set_debug_mode(mode: int | str) -> None:
    """Implements `torch.cuda.set_sync_debug_mode`."""
    global _debug_mode
    if isinstance(mode, str):
        if mode not in DEBUG_MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        mode = DEBUG_MODES[mode]
    if mode not in DEBUG_MODES.values():
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2, not {mode}")
    _debug_mode = mode


def debug_mode() -> int:
    """The debug mode in force."""
    return _debug_mode


def _is_read_for_other_devices() -> bool:
    """Whether torch itself reads, to spread a gradient over equal elements: it does not for tensors of CUDA."""
    node: torch.autograd.graph.Node | None = torch._C._current_autograd_node()
    return node is not None and node.name() in _SPREAD_EVENLY and _innermost_frame_of_others() in (None, _ENGINE)


def _innermost_frame_of_others() -> str | None:
    """The file of the innermost frame that is not ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return None if frame is None else frame.f_code.co_filename


def _complain() -> None:
    """Warn, or raise, where CUDA would: at the innermost line of Python that is not ours."""
    if _debug_mode == DEBUG_MODES["error"]:
        raise RuntimeError(_COMPLAINT)
    frame: FrameType | None = sys._getframe(1)
    level = 2  # 1 is this function
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(_COMPLAINT, UserWarning, stacklevel=level)
