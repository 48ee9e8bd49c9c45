"""`torch.zeros(n).to(device)`: a tensor is created on the host and copied; the device could have created it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.transfer import pinned_copies
from torchperf_lint.idioms.transfer.built_there import build_there
from torchperf_lint.idioms.transfer.construction import (
    built_on_host,
    counts_alike,
    made_here,
    makers_on_host,
)
from torchperf_lint.idioms.transfer.transfers import hot_moves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.construction import Built
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model

_SAME_EVERYWHERE = frozenset("torch." + name for name in "zeros ones full empty eye".split())

_SIZE_FIRST = frozenset({"torch.zeros", "torch.ones", "torch.empty"})


@rule(
    code="TPL201",
    name="cpu-construct-then-move",
    category=Category.TRANSFER,
    summary="a tensor is built on the CPU and then copied to the device",
    message="`{factory}` builds on the CPU, and `{move}` copies the result{waits}, {where}",
    severity=Severity.WARNING,
    fix=Safety.SAFE,
    assumes="numbers that the device draws or rounds will do, and nothing writes to the tensor in place",
    triggers=((".to(", ".cuda(", ".type_as("),),
)
def cpu_construct_then_move(model: Model) -> Iterator[Finding]:
    """Moves, in every step, of tensors that factory calls create in the same expression or before it."""
    for move in hot_moves(model):
        built = built_on_host(model, move.moved)
        if (built is not None and built.packs) or filled_once(model, move.site):
            continue
        if built is None:
            makers = makers_on_host(model, move)
            maker = next((each for each in makers if each.packs is None), None)
            if maker is None:
                continue
            factory, because = maker.name, made_here(model, move, maker)
        elif built.ref in _SIZE_FIRST and built.call.args and model.value(built.call.args[0].value).constant == 0:
            continue  # an empty tensor costs no copy
        else:
            factory, because = model.text(built.call.func), ()
        fields = {
            "factory": f"{factory}(...)",
            "move": f".{move.call.func.attr.value}(...)" if move.call.args else ".cuda()",  # type: ignore[attr-defined]
            "waits": "" if move.non_blocking else " and waits",
            "where": move.hot_path.where,
        }
        yield Finding(move.site, (*because, *move.hot_path.because), _without_wait(model, move, built), fields)


def _without_wait(model: Model, move: Move, built: Built | None) -> Fix | NoFix:
    """Build it on the device, or send it from pinned memory."""
    there = NoFix.FORM if built is None else _build_there(model, move, built)
    return pinned_copies.safer(there, lambda: pinned_copies.sent(model, move))


def _build_there(model: Model, move: Move, built: Built) -> Fix | NoFix:
    """Pass the device to the factory."""
    there = build_there(model, move, built)
    if isinstance(there, NoFix):
        return there
    changed, grade = there
    if not built.exact or not _same_everywhere(model, built):
        grade = grade.at_worst(Safety.UNSAFE)
    return Fix("build the tensor on the device", grade, changed)


def _same_everywhere(model: Model, built: Built) -> bool:
    """Whether every device fills the tensor with the same values: nothing random, nothing rounded."""
    return built.sized or built.ref in _SAME_EVERYWHERE or counts_alike(model, built)
