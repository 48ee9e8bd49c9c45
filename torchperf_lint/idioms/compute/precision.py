"""Mixed precision in a file: its autocast regions with their dtypes, and its gradient scalers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge import amp_api, torch_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


class Region(NamedTuple):
    """A call of autocast for an accelerator, and its dtype; None if unknown or not given."""

    site: Site
    dtype: str | None


def autocast_regions(model: Model) -> tuple[Region, ...]:
    """The regions that may be enabled, without those for the CPU."""
    return model.remember("autocast regions", lambda: tuple(_regions(model)))


def _regions(model: Model) -> Iterator[Region]:
    for site in model.calls(*amp_api.AUTOCASTS):
        enabled = shape.argument(site.node, "enabled")
        device = shape.argument(site.node, "device_type", 0)
        on_host = isinstance(device, cst.SimpleString) and device.evaluated_value == "cpu"
        off = isinstance(enabled, cst.BaseExpression) and shape.is_literal(enabled, "False")
        if on_host or off:
            continue
        dtype = given(model, site.node, "dtype", 1)
        value = None if dtype is None or dtype.value is None else dtype.value
        by_name = None if value is None else torch_api.DTYPES.get(value.ref or "")
        yield Region(site, value.dtype if value is not None and value.kind is Kind.DTYPE else by_name)


def live_scalers(model: Model) -> Iterator[Site]:
    """Gradient scalers that are enabled whatever the program's settings."""
    for site in model.calls(*amp_api.SCALERS):
        enabled = given(model, site.node, "enabled")
        if enabled is not None and (enabled.absent or enabled.is_constant(True)):
            yield site


def scaled_steps(model: Model) -> Iterator[Site]:
    """Hot calls of `scaler.step(optimizer)`."""
    for site in model.method_calls("step"):
        receiver = shape.receiver(site.node)
        if receiver is not None and model.value(receiver).kind is Kind.SCALER and model.hot_path(site) is not None:
            yield site
