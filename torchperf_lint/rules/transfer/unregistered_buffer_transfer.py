"""`self.mask.to(x.device)` in `forward`: a tensor that the module keeps on the host is copied in every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.transfer.buffers import kept_by_module, kept_here, kept_path, read_on_host, register
from torchperf_lint.idioms.transfer.transfers import hot_moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.buffers import PlainTensor
    from torchperf_lint.model import Model


@rule(
    code="TPL205",
    name="unregistered-buffer-transfer",
    category=Category.TRANSFER,
    summary="a constant tensor of a module is not a buffer, and is copied to the device in every call",
    message="`{move}` copies `{path}` from the host{waits}, {where}: it is no buffer",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="the tensor may be cast with the module, and nothing writes to it or needs it on the host",
    triggers=((".to(", ".cuda(", ".type_as("), "__init__"),
)
def unregistered_buffer_transfer(model: Model) -> Iterator[Finding]:
    """Moves, in every step, of a host tensor that a module's constructor bound to an attribute."""
    for move in hot_moves(model):
        tensor = kept_by_module(model, move)
        if tensor is None or filled_once(model, move.site):
            continue
        fields = {
            "move": model.brief(move.site.node),
            "path": kept_path(move.moved) or tensor.name,
            "waits": "" if move.non_blocking else " and waits",
            "where": move.hot_path.where,
        }
        because = (kept_here(model, tensor), *move.hot_path.because)
        yield Finding(move.site, because, _register(model, tensor), fields)


def _register(model: Model, tensor: PlainTensor) -> Fix | None:
    """Register it as a buffer; the move stays, because it then copies nothing."""
    changed = register(model, tensor)
    if changed is None or read_on_host(model, tensor):
        return None
    return Fix("register it as a buffer, so that it moves with the module", Safety.UNSAFE, changed)
