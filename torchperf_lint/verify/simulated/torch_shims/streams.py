"""Streams and events: work is done at once, so they order nothing and only explicit waits are recorded.

This device has no timing. `Event.elapsed_time` gives NaN with a warning: a program that prints its
timings runs to its end, and no number of ours can be taken for a GPU's.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from torchperf_lint.verify.events import EVENT_WAIT, STREAM_WAIT, Kind
from torchperf_lint.verify.simulated import pending, processes
from torchperf_lint.verify.simulated.journal import note
from torchperf_lint.verify.simulated.names import FACE, index_of
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.torch_shims.patching import Faces, refusing_class

if TYPE_CHECKING:
    from typing_extensions import Self

faces = Faces()


class Event:
    """A mark in a stream, reached as soon as it is recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        if interprocess or external:
            refuse("events that other processes or graphs share")
        processes.use()
        self.enable_timing = enable_timing
        self._recorded = False
        self._mark = 0

    @property
    def device(self) -> torch.device:
        """The only device."""
        return FACE

    def record(self, stream: Stream | None = None) -> None:
        """Mark the stream."""
        self._recorded = True
        self._mark = pending.queued()

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream, not the host, wait."""

    def query(self) -> bool:
        """Whether the mark has been reached."""
        pending.end(self._mark)
        return True

    def synchronize(self) -> None:
        """Let the host wait."""
        note(Kind.SYNCHRONIZE, EVENT_WAIT, waits=True, until=self._mark)

    def elapsed_time(self, end_event: Event) -> float:
        """NaN with a warning, or CUDA's error for events without timing."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._recorded and end_event._recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        warnings.warn("the simulated device has no time: Event.elapsed_time is nan", UserWarning, stacklevel=2)
        return float("nan")

    def ipc_handle(self) -> NoReturn:
        """Not modelled."""
        refuse("events that other processes share")


class Stream:
    """A queue of work that is done as it is queued."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        index_of(device)
        processes.use()
        self.priority = priority

    @property
    def device(self) -> torch.device:
        """The only device."""
        return FACE

    @property
    def device_index(self) -> int:
        """The index of the only device."""
        return 0

    @property
    def cuda_stream(self) -> int:
        """Not modelled: there is no such pointer."""
        refuse("Stream.cuda_stream, a pointer to a CUDA stream")

    def synchronize(self) -> None:
        """Let the host wait."""
        note(Kind.SYNCHRONIZE, STREAM_WAIT, waits=True)

    def wait_stream(self, stream: Stream) -> None:
        """Let this stream, not the host, wait."""

    def wait_event(self, event: Event) -> None:
        """Let this stream, not the host, wait."""

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this stream."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all the work is done."""
        pending.end()
        return True

    def is_capturing(self) -> bool:
        """Whether a graph is being captured; there are none."""
        return False

    def __enter__(self) -> Self:
        self._context = StreamContext(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._context.__exit__()


class _Current(threading.local):
    stream: Stream | None = None


_default: Stream | None = None
_current = _Current()


@faces.replace(torch.cuda, "default_stream")
def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another is chosen."""
    global _default
    index_of(device)
    if _default is None:
        _default = Stream()
    return _default


@faces.replace(torch.cuda, "current_stream")
@faces.replace(torch.accelerator, "current_stream")
def current_stream(device: Any = None) -> Stream:
    """The stream that this thread has chosen."""
    return _current.stream or default_stream(device)


@faces.replace(torch.cuda, "set_stream")
@faces.replace(torch.accelerator, "set_stream")
def set_stream(stream: Stream | None) -> None:
    """Choose the stream of this thread."""
    if stream is not None:
        _current.stream = stream


class StreamContext:
    """Another stream, for a while; None leaves the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._before = current_stream()
        set_stream(self.stream)

    def __exit__(self, *exception: object) -> None:
        set_stream(self._before)


@faces.replace(torch.Tensor, "record_stream")
def _record_stream(tensor: torch.Tensor, stream: Stream) -> None:
    """A no-op: memory is freed with the last tensor that uses it."""


for _owner in (torch.cuda, torch.cuda.streams):
    faces.set(_owner, "Event", Event)
    faces.set(_owner, "Stream", Stream)
    faces.set(_owner, "ExternalStream", refusing_class("torch.cuda.ExternalStream"))
faces.set(torch.cuda, "StreamContext", StreamContext)
faces.set(torch.cuda, "stream", StreamContext)
faces.set(torch, "Stream", refusing_class("torch.Stream", torch.Stream))
faces.set(torch, "Event", refusing_class("torch.Event", torch.Event))
