"""Objects of the host that a loop moves to the device on every pass, although the loop never changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.writes import taken_back, writes_in_place
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model


def invariant_path(model: Model, move: Move) -> str | None:
    """The dotted name of what is moved, if the loop around the move leaves it on the host, unchanged; else None."""
    path = shape.dotted(move.moved)
    return path if move.hot_path.loop is not None and path is not None and _stays_on_host(model, move, path) else None


def _stays_on_host(model: Model, move: Move, path: str) -> bool:
    """Whether the object is on the host in every pass."""
    value = model.value(move.moved)
    is_module = value.kind in (Kind.MODULE, Kind.METRIC)
    is_host_tensor = value.kind is Kind.TENSOR and value.device is Device.CPU
    if not (is_module or is_host_tensor) or surroundings.binds_on_way(model, move.hot_path, path):
        return False
    changed = taken_back(model, path, move.site) or writes_in_place(model, path, move.site)
    return not changed and (is_module or not _is_trained(model, path))


def _is_trained(model: Model, path: str) -> bool:
    """Whether the file requires a gradient of the tensor: then an optimizer writes it, and a copy becomes stale."""
    factories = model.calls(*sorted(torch_api.FACTORIES))
    made = (site for site in factories if shape.argument(site.node, "requires_grad") is not None)
    asked = model.method_calls("requires_grad_")
    assignments = (model.parent(site.node) for site in (*made, *asked))
    targets = (target.target for each in assignments if isinstance(each, cst.Assign) for target in each.targets)
    return model.code.names(f"{path}.requires_grad", f"{path}.requires_grad_") or path in map(shape.dotted, targets)
