"""Detector 1: every wait that `torch.cuda.set_sync_debug_mode("warn")` reports, with the line that caused it.

PyTorch hands a warning of its C++ code to Python's `warnings` when the call from Python returns, in the thread that
made the call and with its stack as it was. Warnings of a backward pass wait until `backward()` returns, and so belong
to its line. A warning passes the filters and then `warnings._showwarnmsg`, which neither `catch_warnings(record=True)`
nor `logging.captureWarnings` touches: that is where they are taken. The filter that shows them all is put back in
front whenever the program asks for one of its own. An operator called through `torch.ops` warns on standard error, past
Python: only the profiler counts its waits.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.counters.patches import Patches
from torchperf_lint.verify.events import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.verify.events import Recorder

MESSAGE = "called a synchronizing CUDA operation"

UNNAMED = "a synchronizing operation"
"""The operator of a wait: the warning does not name it."""

_WARN = 1  # what get_sync_debug_mode() answers for "warn"
_FILTERING = ("filterwarnings", "simplefilter", "resetwarnings")


class Claim:
    """The waits that the debug mode reports during a call whose nature is known; who explains one takes it away."""

    def __init__(self, *, counted: bool = True) -> None:
        self.counted = counted
        self.waits = 0


class DebugMode:
    """Turns the debug mode on and makes an event of each of its warnings.

    `reported` is how many there were in each step. Within `claim`, the waits of this thread are left to the caller,
    and those that remain at its end become reads by that operator.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.reported: Counter[int | None] = Counter()
        self._recorder = recorder
        self._thread = threading.local()
        self._patches = Patches()
        self._filter = warnings.filterwarnings

    def start(self) -> None:
        """Report from now on."""
        self._filter = warnings.filterwarnings
        for name in _FILTERING:
            self._patches.replace(warnings, name, self._then_ours_first)
        self._patches.replace(warnings, "_showwarnmsg", self._taking_ours)
        self._ours_first()
        torch.cuda.set_sync_debug_mode("warn")

    def stop(self) -> bool:
        """Report no more; false if something turned the debug mode off before."""
        kept = torch.cuda.get_sync_debug_mode() == _WARN
        torch.cuda.set_sync_debug_mode("default")
        self._patches.undo()
        return kept

    @property
    def claimed(self) -> bool:
        """Whether this thread is inside a call that claims its waits."""
        return getattr(self._thread, "claim", None) is not None

    @contextlib.contextmanager
    def claim(self, operator: str) -> Iterator[Claim]:
        """Leave the waits of this thread to the caller."""
        claim = self._thread.claim = Claim()
        try:
            yield claim
        finally:
            self._thread.claim = None
            for _ in range(claim.waits):
                self._recorder.add(Kind.READ, operator, waits=True)

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """Let what this thread does count for nothing: it is the measuring, not the program."""
        before = getattr(self._thread, "claim", None)
        self._thread.claim = Claim(counted=False)
        try:
            yield
        finally:
            self._thread.claim = before

    def _taking_ours(self, show: Callable[[Any], None]) -> Callable[[Any], None]:
        def shown(message: warnings.WarningMessage) -> None:
            if str(message.message).startswith(MESSAGE):
                self._heard()
            else:
                show(message)

        return shown

    def _heard(self) -> None:
        claim: Claim | None = getattr(self._thread, "claim", None)
        if not self._recorder.active or (claim is not None and not claim.counted):
            return
        self.reported[self._recorder.step] += 1
        if claim is None:
            self._recorder.add(Kind.READ, UNNAMED, waits=True)
        else:
            claim.waits += 1

    def _then_ours_first(self, change: Callable[..., None]) -> Callable[..., None]:
        def changed(*args: Any, **kwargs: Any) -> None:
            change(*args, **kwargs)
            self._ours_first()

        return changed

    def _ours_first(self) -> None:
        self._filter("always", message=MESSAGE)
