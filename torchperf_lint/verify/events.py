"""The recorded events of a run: waits, copies and operators, each with its source line and step."""

from __future__ import annotations

import enum
import os
import sys
import sysconfig
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType


class Kind(enum.Enum):
    """What happened between host and device."""

    READ = "read"
    """The host reads a value, or a size that is a value, or the outcome of a check, and waits for the stream."""

    TO_DEVICE = "to device"
    """A copy from host memory to the device."""

    TO_HOST = "to host"
    """A copy from the device to host memory."""

    SYNCHRONIZE = "synchronize"
    """The program itself asks to wait: for the device, a stream or an event."""

    PIN = "pin"
    """A tensor is copied into page-locked memory."""


DEVICE_WAIT, EVENT_WAIT, STREAM_WAIT = "torch.cuda.synchronize", "Event.synchronize", "Stream.synchronize"
"""The operators of explicit waits."""

KERNELS = "kernels"
"""The name of a real device's kernel count."""

COPIES = (Kind.TO_DEVICE, Kind.TO_HOST)


class Place(NamedTuple):
    """A line of a file; `row` is 1-based, and 0 where only the file, or a thread in its stead, is known."""

    file: str
    row: int


class Event(NamedTuple):
    """One wait or copy.

    `step` is None outside the steps of a loop. `where` is the line of the user's program, `via` the innermost line of
    another library that the call went through, if any. `nbytes` is the size of what is copied or read.
    """

    kind: Kind
    operator: str
    step: int | None
    where: Place
    via: Place | None
    waits: bool  # the host certainly waits for the stream or the device
    nbytes: int = 0
    pinned: bool = False  # the host's side of a copy is page-locked
    asynchronous: bool = False  # requested with non_blocking=True, or implicitly asynchronous

    @property
    def staged(self) -> bool:
        """An asynchronous copy from or to pageable memory: the driver stages it, and the host may wait unseen."""
        return self.kind in COPIES and self.asynchronous and not self.pinned

    @property
    def in_debug_mode(self) -> bool:
        """Whether `torch.cuda.set_sync_debug_mode("warn")` reports it: of explicit waits, only that for a stream."""
        return self.waits and reported_in_debug_mode(self.kind, self.operator)

    def as_json(self) -> dict[str, Any]:
        """The event as plain data."""
        return {**self._asdict(), "kind": self.kind.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Event:
        """The event that `as_json` gave."""
        via = data["via"]
        return cls(**{**data, "kind": Kind(data["kind"]), "where": Place(*data["where"]), "via": via and Place(*via)})


def reported_in_debug_mode(kind: Kind, operator: str) -> bool:
    """Whether the debug mode reports such a wait."""
    return kind is not Kind.SYNCHRONIZE or operator == STREAM_WAIT


class Recorder:
    """Collects the events of one process, from any thread.

    The number of device operators per step is always counted. `count_operators` also counts them by source line, which
    costs a stack walk per operator.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.operators: Counter[tuple[int | None, Place, str]] = Counter()
        self.operators_in: Counter[int | None] = Counter()
        self.loops: list[int] = []  # the loop of each step
        self.step: int | None = None
        self.on_step: list[Callable[[int | None], None]] = []
        self.active = True
        self.count_operators = False

    def begin_step(self, loop: int) -> int:
        """Begin a new step of a loop; returns its number."""
        self.loops.append(loop)
        self.go_to(len(self.loops) - 1)
        return len(self.loops) - 1

    def go_to(self, step: int | None) -> None:
        """Assign the following events to this step, or to none: an inner loop, or the outermost one, is over."""
        self.step = step
        for listener in self.on_step:
            listener(step)

    def add(  # one parameter for each field of an event
        self,
        kind: Kind,
        operator: str,
        *,
        waits: bool,
        nbytes: int = 0,
        pinned: bool = False,
        asynchronous: bool = False,
    ) -> None:
        """Record an event that happens now, at the line on the stack."""
        if self.active:
            where, via = locate(sys._getframe(1))
            self.events.append(Event(kind, operator, self.step, where, via, waits, nbytes, pinned, asynchronous))

    def add_operator(self, name: str) -> None:
        """Record a device operator."""
        if not self.active:
            return
        self.operators_in[self.step] += 1
        if self.count_operators:
            self.operators[self.step, locate(sys._getframe(1))[0], name] += 1


# ---- source lines

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PROGRAMS = os.path.join(_OURS, "_fixtures", "")
_STDLIB = tuple(
    {os.path.realpath(path) + os.sep for path in (sysconfig.get_paths()["stdlib"], os.path.dirname(os.__file__))}
)
_LIBRARIES = [f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"]

_INCLUDED: list[str] = []

_SKIPPED, _TORCH, _LIBRARY, _USER = range(4)
_classes: dict[str, int] = {}

_BACKWARD = ("_engine_run_backward", "run_backward", "backward", "grad")


def include(path: str) -> None:
    """Count a file, or the files in a folder, as the user's own, although they are in a library folder."""
    path = os.path.abspath(path)
    _INCLUDED.append(os.path.join(path, "") if os.path.isdir(path) else path)
    _classes.clear()


def is_included(file: str) -> bool:
    """Whether a file was included as the user's own."""
    return any(file == each or (each.endswith(os.sep) and file.startswith(each)) for each in _INCLUDED)


def add_library_folder(folder: str) -> None:
    """Count the files in a folder as a library's."""
    _LIBRARIES.append(os.path.join(os.path.abspath(folder), ""))
    _classes.clear()


def add_installed_folders(folders: Iterable[str], script: str) -> None:
    """Count files in installed folders, wherever they are, as a library's.

    `pip install --target` can fill any folder; in a script's own folder, packages cannot be distinguished from the
    user's files.
    """
    script = os.path.realpath(script)
    for folder in folders:
        if _is_filled_by_installer(folder) and not script.startswith(os.path.join(os.path.realpath(folder), "")):
            add_library_folder(folder)


def _is_filled_by_installer(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:  # missing, or an archive
        return False


def locate(frame: FrameType | None) -> tuple[Place, Place | None]:
    """The user's line that a frame was called from, and the innermost line of a library, torch only if no other."""
    where, via = _walk(frame)
    if where is None and threading.current_thread() is not threading.main_thread():
        main = sys._current_frames().get(threading.main_thread().ident or 0)
        if main is not None and main.f_code.co_name in _BACKWARD:
            where, _ = _walk(main)  # autograd's thread works for the caller of `backward`
        else:
            where = Place(f"<thread {threading.current_thread().name}>", 0)
    return where or Place("<unknown>", 0), via


def _walk(frame: FrameType | None) -> tuple[Place | None, Place | None]:
    library = torch = None
    for each in _frames(frame):
        place = Place(each.f_code.co_filename, each.f_lineno)
        kind = _class_of(place.file)
        if kind == _USER:
            return place, library or torch
        if kind == _LIBRARY:
            library = library or place
        elif kind == _TORCH:
            torch = torch or place
    return None, library or torch


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_user_file(file: str) -> bool:
    """Whether a file is neither ours, nor Python's, nor a library's."""
    return _class_of(file) == _USER


def _class_of(file: str) -> int:
    known = _classes.get(file)
    if known is None:
        known = _classes[file] = _classify(file)
    return known


def _classify(file: str) -> int:
    if file.startswith(_PROGRAMS) or is_included(file):
        return _USER
    if file.startswith(_OURS) or (file.startswith("<") and file not in ("<stdin>", "<string>")):
        return _SKIPPED
    if any(folder in file for folder in _LIBRARIES):
        return _TORCH if f"{os.sep}torch{os.sep}" in file else _LIBRARY
    if os.path.realpath(file).startswith(_STDLIB):
        return _SKIPPED
    return _USER
