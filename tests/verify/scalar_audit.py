"""Which operators read a scalar inside their kernel: on CUDA some of them wait there, and then need a rule."""

from __future__ import annotations

import collections
import json
import threading
import warnings
from typing import TYPE_CHECKING, Any

import torch
from operator_sweep.database import load
from operator_sweep.sweep import Part, Use, use_on_device

from torchperf_lint.verify.events import Recorder
from torchperf_lint.verify.simulated import install

if TYPE_CHECKING:
    from torch._ops import OpOverload

PARTS = (
    Part(Use.FORWARD, torch.float32, 40),
    Part(Use.FORWARD, torch.int64, 40),
    Part(Use.FORWARD, torch.bool, 10),
    Part(Use.IN_PLACE, torch.float32, 10),
    Part(Use.BACKWARD, torch.float32, 10),
)
TAGS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class Watch:
    """Notes the kernels of the device inside which the host's `_local_scalar_dense` runs."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = collections.defaultdict(set)
        self.program = ""
        self._running = threading.local()
        self._library: Any = torch.library.Library("aten", "IMPL")

    def begin(self) -> None:
        """Stand between the device and its kernels; to be called before the device is made."""
        from torchperf_lint.verify.simulated import linear_algebra, registration

        run = registration.run

        def watched(operator: OpOverload, /, *arguments: Any, **keywords: Any) -> Any:
            outer = getattr(self._running, "operator", None)
            self._running.operator = operator
            try:
                return run(operator, *arguments, **keywords)
            finally:
                self._running.operator = outer

        for module in (linear_algebra, registration):
            module.run = watched
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is replaced is the point
            self._library.impl("_local_scalar_dense", self._read, "CPU")

    def _read(self, tensor: torch.Tensor) -> Any:
        operator = getattr(self._running, "operator", None)
        if operator is not None:
            self.found[operator._schema.name.removeprefix("aten::")].add(self.program)
        return tensor.reshape(()).tolist()  # does not go through the operator that this stands in for


def candidates() -> dict[str, list[str]]:
    """The operators that read a scalar inside, each with the entries of the database that showed it."""
    watch = Watch()

    def install_watched() -> None:
        watch.begin()
        install(Recorder())

    known = load(install_watched)
    warnings.simplefilter("ignore")
    for part in PARTS:
        for operator in part.operators(known):
            watch.program = operator.name
            use_on_device(operator, part)
    return {name: sorted(programs) for name, programs in sorted(watch.found.items())}


if __name__ == "__main__":
    print(json.dumps(candidates(), indent=1))
