"""`clip_grad_norm_(..., error_if_nonfinite=True)`, `scaler.get_scale()`: waits in guards of the optimizer's step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge.conventions import SCALER_NAMES
from torchperf_lint.knowledge.optimizer_api import CLIPS_TO_NORM, NONFINITE_POSITION
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL116",
    name="optimizer-guard-sync",
    category=Category.SYNC,
    summary="a guard around the optimizer's step waits for the device in every step",
    message="`{call}` {does}, which waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="no gradient is NaN or infinite",
    triggers=(("error_if_nonfinite", "get_scale("),),
)
def optimizer_guard_sync(model: Model) -> Iterator[Finding]:
    """Norms that are tested before clipping, and loss scales that are read on the host."""
    for site in model.calls(*CLIPS_TO_NORM, hot=True):
        tested = given(model, site.node, "error_if_nonfinite", NONFINITE_POSITION)
        hot_path = model.hot_path(site)
        if tested is None or tested.node is None or not tested.is_constant(True):
            continue
        because = _gradients_on_device(model, site)
        if hot_path is not None and because is not None and not surroundings.may_be_caught(model, site):
            argument = next((each for each in site.node.args if each.keyword and each.value is tested.node), None)
            edit = None if argument is None else edits.drop_argument(site.tree, site.node, argument)
            fix = None if edit is None else Fix("clip without the test", Safety.UNSAFE, (edit,))
            fields = {
                "call": model.brief(site.node),
                "does": "tests the norm of the gradients",
                "where": hot_path.where,
            }
            yield Finding(site, (*because, *hot_path.because), fix, fields)
    for site in model.method_calls("get_scale"):
        hot_path = model.hot_path(site) if _scales_on_device(model, site) else None
        if hot_path is not None:
            fields = {"call": model.brief(site.node), "does": "reads the scale on the host", "where": hot_path.where}
            yield Finding(site, hot_path.because, None, fields)


def _gradients_on_device(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that the norm is a device tensor, or that the parameters are on the device."""
    shown = model.on_device(site.node)
    if shown is not None:
        return shown
    first = site.node.args[0].value if site.node.args else None
    return None if first is None else model.on_device(first)


def _scales_on_device(model: Model, site: Site) -> bool:
    """Whether the scaler is for the device and enabled; one that may be from another library is recognized by name."""
    owner = shape.receiver(site.node)
    value = UNKNOWN if owner is None else model.value(owner)
    if owner is None or value.kind not in (Kind.SCALER, Kind.UNKNOWN):
        return False
    created = model.creation(value)
    if created is None:
        return value.kind is Kind.SCALER or (shape.dotted(owner) or "").rpartition(".")[2] in SCALER_NAMES
    device, enabled = given(model, created.node, "device", 0), given(model, created.node, "enabled")
    named = None if device is None or device.node is None else model.device_named(device.node)
    return named is not Device.CPU and not (enabled is not None and enabled.is_constant(False))
