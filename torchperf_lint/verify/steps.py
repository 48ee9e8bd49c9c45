"""Detects the boundaries of a program's steps without changes to the program."""

from __future__ import annotations

import enum
import functools
import sys
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from torchperf_lint.verify.events import Place, is_user_file, locate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from torchperf_lint.verify.events import Recorder

WARM_UP = 2
"""The first steps at a place, excluded from every count: caches fill and groups form in them."""

_CALL = Module._wrapped_call_impl.__code__


class EnoughSteps(BaseException):
    """The program has made the requested number of steps; this unwinds like an interrupt."""


class _Source(enum.Enum):
    """What starts the steps of a loop."""

    LOADER = enum.auto()
    OPTIMIZER = enum.auto()
    CALL = enum.auto()


class _Loop:
    """One pass over a loader, the steps of an optimizer, or calls of a module that follow each other."""

    def __init__(self, source: _Source, place: Place, series: object = None, outer: int | None = None) -> None:
        self.source = source
        self.place = place
        self.series = series  # the common key of a loop's passes, or of its calls
        self.outer = outer  # the enclosing step of calls
        self.exhausted = False  # the loader was found empty
        self.trains = False  # an optimizer steps in it
        self.fetches_ahead = False  # each batch is used in the step after its own
        self.is_training = False  # calls within a step of the enclosing training


class _Running(NamedTuple):
    """An unfinished loop over a loader, and its current step."""

    iterator: weakref.ref[Any]
    loop: int
    step: int


class Steps:
    """Marks the steps of this process in a recorder.

    *Each batch of a `DataLoader`* begins a step. A loop inside a step (a validation run, say) has steps of its own, and
    the outer step continues after it. A loop that takes one batch in each of its passes, by `next(iter(loader))` or
    with a `break`, and trains with it, makes one step per pass, which ends where the next one begins.

    *Outside such loops* a step ends where `step()` of the first optimizer that is used there returns: a rollout before
    an update is part of the update's step. Where a program trains with batches of loaders, its optimizers begin no
    steps.

    *Without gradients, outside both*, in evaluation and prediction over batches from no loader, a step begins
    where user code calls a module again, outside any other module's call. If an optimizer steps afterwards, the
    calls were part of the training's step.
    """

    def __init__(self, recorder: Recorder, limit: int | None = None) -> None:
        self._recorder = recorder
        self._limit = limit
        self._loops: list[_Loop] = []
        self._running: list[_Running] = []
        self._passes: dict[object, int] = {}  # the first step of each series' last pass
        self._within_updates: set[object] = set()  # series whose batches serve several updates each
        self._ended: int | None = None  # the loop whose loader was last found empty
        self._optimizer: weakref.ref[Any] | None = None
        self._optimizers_of_loaders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._updates = -1  # the loop of its steps
        self._update: int | None = None  # the step that it has begun
        self._calls: list[int] = []  # the loops of calls since the last batch or update
        self._other_calls: set[object] = set()  # of modules, since the current call step began
        self._owners: dict[int, int | None] = {}  # the enclosing step of steps that turned out to be parts
        self._trained: set[int] = set()
        self._limited = 0

    # ---- what was seen

    @property
    def made(self) -> int:
        """The number of steps; steps of a loader count only with a batch."""
        return sum(len(steps) - loop.exhausted for loop, steps in self._shown())

    @property
    def lengths(self) -> list[int]:
        """The number of steps of each loop, including the one in which its loader was found empty."""
        return [len(steps) for _, steps in self._shown()]

    def steady(self) -> dict[int, Place]:
        """The counted steps, with the lines of their loops: without warm-up and without a loop's last step.

        The last step has no end of its own: it includes the code after a `break`, or only the loader's empty fetch.
        """
        warmed: Counter[Place] = Counter()
        found: dict[int, Place] = {}
        last_pass = {each.series: number for number, each in enumerate(self._loops)}
        for number, steps in enumerate(self._steps_by_loop()):
            loop = self._loops[number]
            ends = len(steps) == 1 and steps[0] in self._trained and number != last_pass[loop.series]
            counted = steps if ends and loop.source is _Source.LOADER and not loop.exhausted else steps[:-1]
            for step in steps:
                warmed[loop.place] += 1
                is_warm = warmed[loop.place] > WARM_UP and not (loop.fetches_ahead and step == steps[0])
                if is_warm and step in counted:
                    found[step] = loop.place
        return dict(sorted(found.items()))

    def settle(self) -> None:
        """Reassign the recorder's events to their final steps after the program."""
        recorder = self._recorder
        recorder.events = [each._replace(step=self._step_of(each.step)) for each in recorder.events]
        operators, operators_in = recorder.operators, recorder.operators_in
        recorder.operators, recorder.operators_in = Counter(), Counter()
        for (step, where, name), count in operators.items():
            recorder.operators[self._step_of(step), where, name] += count
        for step, count in operators_in.items():
            recorder.operators_in[self._step_of(step)] += count

    def _step_of(self, step: int | None) -> int | None:
        while step is not None:
            if step in self._owners:
                step = self._owners[step]
            elif self._loops[self._recorder.loops[step]].is_training:
                step = self._loops[self._recorder.loops[step]].outer
            else:
                break
        return step

    def _steps_by_loop(self) -> list[list[int]]:
        steps: list[list[int]] = [[] for _ in self._loops]
        for step, loop in enumerate(self._recorder.loops):
            if self._step_of(step) == step:
                steps[loop].append(step)
        return steps

    def _shown(self) -> list[tuple[_Loop, list[int]]]:
        """The steps of each real loop: a single prediction is none."""
        steady = self.steady()
        return [
            (loop, steps)
            for loop, steps in zip(self._loops, self._steps_by_loop(), strict=True)
            if steps and (loop.source is not _Source.CALL or not steady.keys().isdisjoint(steps))
        ]

    # ---- where steps begin

    def watch(self, *, calls: bool = True) -> Callable[[], None]:
        """Start marking steps, those of calls only if `calls`; returns a function that stops it."""
        following = dataloader._BaseDataLoaderIter.__next__

        @functools.wraps(following)
        def step_by_step(iterator: Any) -> Any:
            self._began(iterator)
            try:
                return following(iterator)
            except StopIteration:
                self._found_empty(iterator)
                raise

        dataloader._BaseDataLoaderIter.__next__ = step_by_step  # type: ignore[method-assign, assignment]
        hook = register_optimizer_step_post_hook(self._optimizer_stepped)
        called = Module.__call__

        @functools.wraps(called)
        def call_by_call(module: Module, *arguments: Any, **keywords: Any) -> Any:
            self._module_called()
            return called(module, *arguments, **keywords)

        if calls:  # torch's own hook for this warns where a module is compiled
            Module.__call__ = call_by_call  # type: ignore[method-assign]

        def end() -> None:
            dataloader._BaseDataLoaderIter.__next__ = following  # type: ignore[method-assign]
            hook.remove()
            Module.__call__ = called  # type: ignore[method-assign]

        return end

    def _began(self, iterator: Any) -> None:
        self._forget_abandoned()
        self._calls.clear()
        known = next((place for place, each in enumerate(self._running) if each.iterator() is iterator), None)
        if known is None:
            loop = self._new(_Loop(_Source.LOADER, locate(sys._getframe())[0], _path_to(sys._getframe())))
            self._leave_last_pass(self._loops[loop].series)
        else:
            loop = self._running[known].loop
            del self._running[known:]
        step = self._begin(loop)
        if known is None:
            self._passes[self._loops[loop].series] = step
            if self._loops[loop].series in self._within_updates:
                self._owners[step] = self._update
        self._running.append(_Running(weakref.ref(iterator), loop, step))

    def _leave_last_pass(self, series: object) -> None:
        """End the last pass of a loop that begins its next one.

        If the pass took one batch and an optimizer stepped once after it, both are one step. If there were several
        updates with the batch, the updates are the steps, and the batch is part of one of them.
        """
        first = self._passes.get(series)
        if first is None:
            return
        loops = self._recorder.loops
        left = next((place for place, each in enumerate(self._running) if each.loop == loops[first]), None)
        if left is not None:
            del self._running[left:]
        since = range(first + 1, len(loops))
        if self._loops[loops[first]].exhausted or any(loops[step] == loops[first] for step in since):
            return
        updates = [step for step in since if self._loops[loops[step]].source is _Source.OPTIMIZER]
        if len(updates) == 1:
            self._owners[updates[0]] = first
        elif updates:
            self._within_updates.add(series)
            before = (step for step in range(first - 1, -1, -1) if loops[step] == loops[updates[0]])
            self._owners[first] = next(before, None)

    def _found_empty(self, iterator: Any) -> None:
        self._ended = next(each.loop for each in self._running if each.iterator() is iterator)
        self._loops[self._ended].exhausted = True
        self._running = [each for each in self._running if each.iterator() is not iterator]
        self._forget_abandoned()
        self._recorder.go_to(self._running[-1].step if self._running else self._update)

    def _forget_abandoned(self) -> None:
        self._running = [each for each in self._running if each.iterator() is not None]

    def _optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        for loop in self._calls:
            self._loops[loop].is_training = True
        self._calls.clear()
        step = self._recorder.step
        if step is not None:
            self._trained.add(step)
        self._forget_abandoned()
        if self._running:
            self._loops[self._running[-1].loop].trains = True
            self._optimizers_of_loaders.add(optimizer)
        elif optimizer in self._optimizers_of_loaders:
            if self._ended is not None and self._loops[self._ended].trains:
                self._loops[self._ended].fetches_ahead = True
        else:
            if self._optimizer is None or self._optimizer() is None:
                self._optimizer = weakref.ref(optimizer)
                self._updates = self._new(_Loop(_Source.OPTIMIZER, locate(sys._getframe())[0]))
            if self._optimizer() is optimizer:
                self._update = self._begin(self._updates)

    def _module_called(self) -> None:
        if torch.is_grad_enabled() or threading.current_thread() is not threading.main_thread():
            return
        if any(each.iterator() is not None for each in self._running):
            return
        caller = sys._getframe(2)
        if is_user_file(caller.f_code.co_filename) and not _is_inside_module(caller):
            self._called_from(caller)

    def _called_from(self, caller: FrameType) -> None:
        """Handle a module's call; if another module is called again in between, the first one's loop is over."""
        series = caller.f_code, caller.f_lasti
        step = self._recorder.step
        loop = self._calls[-1] if self._calls and step is not None else None
        if loop is not None and self._loops[loop].series != series and series not in self._other_calls:
            self._other_calls.add(series)
            return
        if loop is None or self._loops[loop].series != series:
            outer = step if loop is None else self._loops[loop].outer
            place = Place(caller.f_code.co_filename, caller.f_lineno)
            loop = self._new(_Loop(_Source.CALL, place, series, outer))
            self._calls.append(loop)
        self._other_calls.clear()
        self._begin(loop)

    def _new(self, loop: _Loop) -> int:
        self._loops.append(loop)
        return len(self._loops) - 1

    def _begin(self, loop: int) -> int:
        if self._loops[loop].source is not _Source.CALL:  # calls may still turn out to be a part of the first step
            if self._limit is not None and self._limited >= self._limit:
                raise EnoughSteps
            self._limited += 1
        return self._recorder.begin_step(loop)


def _path_to(frame: FrameType | None) -> tuple[tuple[object, int], ...]:
    """The lines of all active calls: a framework has several loops for one user line."""
    path = []
    while frame is not None:
        path.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(path)


def _is_inside_module(frame: FrameType | None) -> bool:
    """Whether the frame is part of a module's call."""
    while frame is not None:
        if frame.f_code is _CALL:
            return True
        frame = frame.f_back
    return False
