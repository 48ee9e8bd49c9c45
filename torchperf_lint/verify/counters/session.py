"""Counting or timing one program on a GPU, from before its first line to after its last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.measurements import OTHER_WORK_MS
from torchperf_lint.verify.counters.calls import Calls
from torchperf_lint.verify.counters.debug_mode import DebugMode
from torchperf_lint.verify.counters.disagreement import disagreements, join
from torchperf_lint.verify.counters.runtime import Profile, counts
from torchperf_lint.verify.counters.timeline import timeline
from torchperf_lint.verify.counters.timing import StepTimer

if TYPE_CHECKING:
    from torchperf_lint.verify.events import Recorder

COUNT, TIME, TIME_BESIDE_WORK = MODES = ("count", "time", "time beside work")


class Watch:
    """Detector 1 and the watched calls together: what fills a recorder on a GPU."""

    def __init__(self, recorder: Recorder) -> None:
        self.debug_mode = DebugMode(recorder)
        self.calls = Calls(recorder, self.debug_mode)

    def start(self) -> None:
        """Start recording."""
        self.calls.start()
        self.debug_mode.start()

    def stop(self) -> bool:
        """Stop recording; false if something turned the debug mode off before."""
        kept = self.debug_mode.stop()
        self.calls.stop()
        return kept


def install(recorder: Recorder) -> None:
    """Record the waits and copies of this process on its GPU, until it ends."""
    Watch(recorder).start()


class Counters:
    """A GPU's measurements of a program: `count` its waits and copies, or `time` its steps, alone or beside work.

    One process does one of these, because counting changes times.
    """

    def __init__(self, recorder: Recorder, mode: str = COUNT) -> None:
        if mode not in MODES:
            raise ValueError(f"unknown mode {mode!r}")
        self._recorder = recorder
        self._watch = Watch(recorder)
        self._profile = Profile(self._watch.debug_mode.unheard)
        self._timer = StepTimer(OTHER_WORK_MS if mode == TIME_BESIDE_WORK else 0.0)
        self._mode = mode

    def start(self) -> None:
        """Start, before the program does."""
        listener: Profile | StepTimer = self._profile
        if self._mode != COUNT:
            listener = self._timer
            self._timer.start()
        else:
            self._watch.start()
        self._recorder.on_step.append(listener.on_step)

    def stop(self) -> dict[str, Any]:
        """Stop, after the program; returns the measurements as plain data."""
        if self._mode != COUNT:
            self._recorder.on_step.remove(self._timer.on_step)
            return {"mode": self._mode, **self._timer.stop()}
        self._recorder.on_step.remove(self._profile.on_step)
        profile = self._profile.finish()
        remarks = [] if self._watch.stop() else ["The program changed the debug mode: its waits are not all counted."]
        if self._profile.failure is not None:
            remarks.append(f"Only the debug mode and the watched calls counted: {self._profile.failure}.")
        reported = self._watch.debug_mode.reported
        steps = join(reported, self._recorder.events, {} if self._profile.failure else counts(profile))
        return {
            "mode": COUNT,
            "steps": [each.as_json() for each in steps],
            "disagreements": [*remarks, *disagreements(steps)],
            "timeline": timeline(profile),
        }
