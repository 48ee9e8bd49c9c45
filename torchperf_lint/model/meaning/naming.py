"""Values by the names that the field uses for one thing only."""

from __future__ import annotations

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.meaning.values import Device, Kind, Origin, Value

WHOLE_BATCH = "batch"
BATCH = Value(Kind.STRUCTURE, origin=Origin.BATCH, ref=WHOLE_BATCH)
"""A batch as a loader gives it, on the host unless something has placed it."""


def conventional(name: str, value: Value) -> Value:
    """What the field means by such a name where the value, or the place of its tensors, is unknown; else `value`."""
    if name in conventions.HOST_TENSORS and value.holds_tensors:
        return Value(Kind.TENSOR, Device.CPU)
    if value.kind is not Kind.UNKNOWN:
        return value
    lower = name.lower()
    if lower.endswith(conventions.LOADER_ENDINGS):
        batch = BATCH._replace(device=value.device, because=value.because, sources=value.sources)
        return Value(Kind.LOADER, element=batch, sources=value.sources)
    if conventions.MAKERS.match(lower):
        return value
    if name in conventions.MODEL_NAMES or lower.endswith(conventions.MODEL_ENDINGS):
        return Value(Kind.MODULE, value.device, because=value.because)
    if name in conventions.CRITERION_NAMES or lower.endswith(conventions.CRITERION_ENDINGS):
        return Value(Kind.MODULE, value.device, ref="criterion", because=value.because)
    if name in conventions.OPTIMIZER_NAMES or lower.endswith(conventions.OPTIMIZER_ENDINGS):
        return Value(Kind.OPTIMIZER)
    if name in conventions.SCALER_NAMES:
        return Value(Kind.SCALER)
    return value
