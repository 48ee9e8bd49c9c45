"""Memory growth from step to step: device memory, and autograd graphs that no backward pass uses."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torchperf_lint.verify.events import Recorder


class Upkeep:
    """Records the bytes in use on the device at the start of each step, and at some steps the size of live graphs.

    Tensors that are collected without `detach()` retain the graph of every step. After a backward pass such a graph
    holds no device memory, so only its nodes show it.
    """

    def __init__(self) -> None:
        self.memory: list[int] = []
        self.nodes: dict[int, int] = {}

    def watch(self, recorder: Recorder) -> None:
        """Note all steps from now on."""
        recorder.on_step.append(self._note)

    def _note(self, step: int | None) -> None:
        if step != len(self.memory):
            return  # not the start of a step: an outer one continues, or none
        self.memory.append(_bytes_in_use())
        if step & (step - 1) == 0:  # scanning all objects is slow: only at steps 0, 1, 2, 4, 8 and so on
            self.nodes[step] = _nodes_alive()


def _bytes_in_use() -> int:
    """The bytes that tensors asked for. They occupy more: on a GPU, each one takes a multiple of 512."""
    return int(torch.cuda.memory_stats().get("requested_bytes.all.current", 0))  # none before the device is used


def _nodes_alive() -> int:
    tensors = [each for each in gc.get_objects() if type(each) is torch.Tensor]
    waiting: list[Any] = [each.grad_fn for each in tensors]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return len(seen)
