"""Where one step of a training program ends and the next begins, seen without a word from the program."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from torchperf_lint.verify.events import Place, locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.verify.events import Recorder

WARM_UP = 2
"""The first steps at a place, which are left out of every count: caches fill and groups form in them."""


class EnoughSteps(BaseException):
    """The program has made as many steps as were asked for; it unwinds like an interrupt."""


class _Running(NamedTuple):
    """A loop over a loader that is not over yet, and the step that it is in."""

    iterator: weakref.ref[Any]
    loop: int
    step: int


class Steps:
    """Marks the steps of this process in a recorder: each batch of a `DataLoader` begins one.

    A loop inside a step (a validation run, say) has steps of its own, and the outer step goes on after it. In a
    program that uses no loader, a step ends where its first optimizer's `step()` returns.
    """

    def __init__(self, recorder: Recorder, limit: int | None = None) -> None:
        self._recorder = recorder
        self._limit = limit
        self._running: list[_Running] = []
        self._places: list[Place] = []  # of each loop, the line that asks for its batches
        self._warmed: Counter[Place] = Counter()
        self._cold: set[int] = set()
        self._optimizer: weakref.ref[Any] | None = None
        self._uses_loader = False
        self._empty = 0

    @property
    def made(self) -> int:
        """How many steps there were: those of a loader, only with a batch."""
        return len(self._recorder.loops) - self._empty

    @property
    def lengths(self) -> list[int]:
        """How many steps each loop made, with the one in which its loader was found empty."""
        lengths = Counter(self._recorder.loops)
        return [lengths[loop] for loop in range(len(self._places))]

    def watch(self) -> Callable[[], None]:
        """Mark the steps from now on; return what ends it."""
        following = dataloader._BaseDataLoaderIter.__next__

        @functools.wraps(following)
        def step_by_step(iterator: Any) -> Any:
            self._began(iterator)
            try:
                return following(iterator)
            except StopIteration:
                self._ended(iterator)
                raise

        dataloader._BaseDataLoaderIter.__next__ = step_by_step  # type: ignore[method-assign, assignment]
        hook = register_optimizer_step_post_hook(self._optimizer_stepped)

        def end() -> None:
            dataloader._BaseDataLoaderIter.__next__ = following  # type: ignore[method-assign]
            hook.remove()

        return end

    def steady(self) -> dict[int, Place]:
        """The steps that counts are made over, with the lines of their loops: neither warm-up nor the last of a loop.

        The last one has no end of its own: it holds what follows a `break`, or only the loader's finding itself empty.
        """
        loops = self._recorder.loops
        last = {loop: step for step, loop in enumerate(loops)}
        return {
            step: self._places[loop] for step, loop in enumerate(loops) if step not in self._cold and step != last[loop]
        }

    def _began(self, iterator: Any) -> None:
        self._uses_loader = True
        self._forget_abandoned()
        known = next((place for place, each in enumerate(self._running) if each.iterator() is iterator), None)
        if known is None:
            self._places.append(locate(sys._getframe())[0])
            loop = len(self._places) - 1
        else:
            loop = self._running[known].loop
            del self._running[known:]
        step = self._begin(loop)
        self._running.append(_Running(weakref.ref(iterator), loop, step))

    def _ended(self, iterator: Any) -> None:
        self._empty += 1
        self._running = [each for each in self._running if each.iterator() is not iterator]
        self._forget_abandoned()
        self._recorder.go_to(self._running[-1].step if self._running else None)

    def _forget_abandoned(self) -> None:
        self._running = [each for each in self._running if each.iterator() is not None]

    def _optimizer_stepped(self, optimizer: Any, *_: Any) -> None:
        if self._uses_loader:
            return
        if self._optimizer is None or self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
            self._places.append(locate(sys._getframe())[0])
        if self._optimizer() is optimizer:
            self._begin(len(self._places) - 1)

    def _begin(self, loop: int) -> int:
        if self._limit is not None and len(self._recorder.loops) >= self._limit:
            raise EnoughSteps
        step = self._recorder.begin_step(loop)
        place = self._places[loop]
        self._warmed[place] += 1
        if self._warmed[place] <= WARM_UP:
            self._cold.add(step)
        return step
