"""Finds the user's line that a wait comes from, and the library in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.profile.checkout import MODULE_LEVEL
from torchperf_lint.profile.frames import parse
from torchperf_lint.profile.rows import rows_of_call
from torchperf_lint.verify.events import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.profile.checkout import Checkout
    from torchperf_lint.profile.frames import Frame
    from torchperf_lint.profile.recording import Thread
    from torchperf_lint.profile.waits import Wait


class Spot(NamedTuple):
    """The origin of a wait.

    `where` has a path on disk if the file exists, otherwise the trace's path. Its row is that of the wait if known,
    otherwise that of the function, and 0 at module level. `on_disk`: the function was found on disk; then `rows` are
    the candidate rows, and `of_function` all rows of the function, but none of a module.
    `file_may_be` are the candidate files of an ambiguous path. `changed`: the file on disk is not the one that ran.
    """

    where: Place
    function: str
    via: Place | None
    rows: tuple[int, ...] = ()
    on_disk: bool = False
    of_function: range = range(0)
    file_may_be: tuple[str, ...] = ()
    changed: bool = False


class Places:
    """Finds the origins of waits; `exact`: rows of frames are the rows that ran, not first rows of functions."""

    def __init__(self, checkout: Checkout, threads: dict[Thread, str], exact: bool) -> None:
        self._checkout = checkout
        self._threads = threads
        self._exact = exact
        self._known: dict[tuple[tuple[str, ...], str], Spot | None] = {}

    def spot(self, wait: Wait) -> Spot:
        """The innermost user line of a wait; the thread, if there is none."""
        key = wait.frames, wait.operator
        if key not in self._known:
            self._known[key] = self._of_frames(*key)
        thread = self._threads.get(wait.thread) or f"thread {wait.thread[1]}"
        return self._known[key] or Spot(Place(f"<{thread}>", 0), "", None)

    def _of_frames(self, names: Sequence[str], operator: str) -> Spot | None:
        frames = [parse(name) for name in names]
        chosen = self._innermost_of_user(frames)
        if chosen is None:
            return None
        frame = frames[chosen]
        assert frame is not None
        via = _via(frames[:chosen])
        files = self._checkout.files(frame)
        if len(files) != 1:
            return Spot(Place(frame.path, frame.row), frame.function, via, file_may_be=files)
        body = self._checkout.body(files[0], frame)
        if body is None:
            return Spot(Place(files[0], frame.row), frame.function, via, changed=True)
        if self._exact or body.first == body.last:
            rows: tuple[int, ...] = (frame.row,)
        else:
            rows = rows_of_call(body, list(reversed(names[:chosen])), operator)
        function = range(0) if body.name == MODULE_LEVEL else range(body.first, body.last + 1)
        begin = function.start if function else 0
        where = Place(files[0], rows[0] if len(rows) == 1 else begin)
        return Spot(where, frame.function, via, rows, True, function)

    def _innermost_of_user(self, frames: Sequence[Frame | None]) -> int | None:
        """The index of the innermost frame in a file of the checkout, or else in a file that may be the user's."""
        possible = None
        for number, frame in enumerate(frames):
            if frame is None:
                continue
            if self._checkout.files(frame):
                return number
            if possible is None and not frame.is_installed and not frame.is_python:
                possible = number
        return possible


def _via(inner: Sequence[Frame | None]) -> Place | None:
    """The innermost library line; torch's only if there is no other."""
    libraries = [frame for frame in inner if frame is not None and not frame.is_python]
    chosen = next((frame for frame in libraries if not frame.is_torch), libraries[0] if libraries else None)
    return None if chosen is None else Place(chosen.path, chosen.row)
