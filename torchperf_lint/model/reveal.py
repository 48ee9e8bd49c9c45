"""The model's knowledge about the argument of each `reveal(...)` call, as text: used by the model's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Device, Kind, Origin, Value

if TYPE_CHECKING:
    from torchperf_lint.model import Model

_PLACES = {device: f" on {device.value}" for device in Device} | {Device.UNKNOWN: ""}
_LAID = {Origin.BATCH: ", as loaded", Origin.DERIVED: ", from a batch"}


def reveal_all(model: Model) -> dict[int, str]:
    """Row of each `reveal(expression)` call -> value and frequency: `scalar tensor on cuda, hot: training loop`."""
    found = {}
    for record in model.calls_named("reveal"):
        value = model.value_in(record.function, record.call.args[0])
        text = describe(value)
        hot_path = model.hot_path_of(record.statement)
        if hot_path is not None:
            text += f", hot: {hot_path.repeated}"
        elif model.is_sampled(record.statement):
            text += ", throttled"
        found[record.call.lineno] = text
    return found


def describe(value: Value) -> str:
    """The value in words."""
    kind = value.kind
    words = kind.value
    if kind is Kind.TENSOR:
        words = f"{value.dtype} tensor" if value.dtype else "tensor"
        if value.scalar:
            words = f"scalar {words}"
        elif value.vector:
            words = f"vector {words}"
        if value.mixed:
            words += " or number"
    elif kind is Kind.NUMBER and value.dtype:
        words = value.dtype
    elif kind is Kind.CONTAINER:
        words = value.ref or "container"
        if value.element is not None:
            words += f" of {describe(value.element)}"
        return words
    elif kind is Kind.LOADER:
        return f"loader of {describe(value.element)}" if value.element else "loader"
    elif kind in (Kind.LIBRARY, Kind.METRIC, Kind.OPTIMIZER, Kind.SCALER) and value.ref:
        words = f"{kind.value} {value.ref}"
    elif kind is Kind.FUNCTION and value.function is not None:
        words = f"function {value.function.name}"
    elif kind is Kind.CLASS and value.cls is not None:
        words = f"class {value.cls.name}"
    elif kind in (Kind.INSTANCE, Kind.MODULE):
        name = value.cls.name if value.cls is not None else value.ref
        words = f"{kind.value} {name}" if name else kind.value
    elif kind is Kind.METHOD:
        words = f"method {value.ref}"
    if kind in (Kind.TENSOR, Kind.PYTREE, Kind.MODULE, Kind.DEVICE, Kind.METRIC, Kind.UNKNOWN):
        words += _PLACES[value.device]
    if value.origin is not None and not value.device.on_accelerator:
        words += _LAID[value.origin]
    return words
