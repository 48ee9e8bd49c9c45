"""Tensors that are new in every pass and that nothing writes to: a list may keep them without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.idioms import habits, writes
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model

_LEAVES_IT = frozenset("backward item float int print scale isnan isfinite round tolist".split())
"""Calls that neither write to their tensor nor pass it on."""


def is_fresh(model: Model, read: HostRead) -> bool:
    """Whether the tensor is shown to be new in every pass and never written, so that no copy is needed."""
    tensor = read.tensor
    if habits.replays_graphs(model.code):
        return False
    if isinstance(tensor, cst.Call):
        return shape.method_name(tensor) in FULL_REDUCTIONS and shape.argument(tensor, "out") is None
    if not isinstance(tensor, cst.Name) or not writes.makes_afresh(model, tensor.value, read.site):
        return False
    uses = model.uses(tensor.value, read.site, read.hot_path)
    others = [use for use in uses.of("load") if not read.site.start <= use.start < read.site.end]
    return (
        all(use.inside for use in uses.of("store"))
        and not uses.of("augment")
        and all((use.call or "").rpartition(".")[2] in _LEAVES_IT for use in others)
    )
