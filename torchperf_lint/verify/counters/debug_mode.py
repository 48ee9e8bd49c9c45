"""Detector 1: every wait that `torch.cuda.set_sync_debug_mode("warn")` reports, with the line that caused it.

PyTorch passes a warning from C++ to Python's `warnings` when the call from Python returns, in the thread that
made the call and with its stack. Warnings of a backward pass are issued when `backward()` returns, and so belong
to its line. A warning passes the filters and then `warnings._showwarnmsg`, which neither `catch_warnings(record=True)`
nor `logging.captureWarnings` replaces: we take warnings there. The filter that shows all of them is put first again
whenever the program adds a filter. An operator called through `torch.ops` warns on standard error, past
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
"""The operator of a wait, which the warning does not name."""

_WARN = 1  # what get_sync_debug_mode() answers for "warn"
_FILTERING = ("filterwarnings", "simplefilter", "resetwarnings")


class Claim:
    """The waits that the debug mode reports during a known call; explained waits are removed."""

    def __init__(self, *, counted: bool = True) -> None:
        self.counted = counted
        self.waits = 0


class DebugMode:
    """Turns the debug mode on and records an event per warning.

    `reported` counts them by step. Within `claim`, the waits of this thread are left to the caller, and those that
    remain at its end become reads by that operator.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.reported: Counter[int | None] = Counter()
        self._recorder = recorder
        self._thread = threading.local()
        self._patches = Patches()
        self._filter = warnings.filterwarnings

    def start(self) -> None:
        """Start reporting."""
        self._filter = warnings.filterwarnings
        for name in _FILTERING:
            self._patches.replace(warnings, name, self._then_ours_first)
        self._patches.replace(warnings, "_showwarnmsg", self._taking_ours)
        self._ours_first()
        torch.cuda.set_sync_debug_mode("warn")

    def stop(self) -> bool:
        """Stop reporting; false if something turned the debug mode off before."""
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
        """Ignore this thread's waits: they belong to the measurement, not to the program."""
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
