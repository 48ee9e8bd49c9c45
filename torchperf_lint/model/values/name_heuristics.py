"""Values from names that the field uses for one thing only."""

from __future__ import annotations

import functools

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.domain.values import WHOLE_BATCH, Device, Kind, Origin, Value

BATCH = Value(Kind.PYTREE, origin=Origin.BATCH, ref=WHOLE_BATCH)
"""A batch as a loader yields it, on the host unless something has moved it."""


def conventional(name: str, value: Value) -> Value:
    """The conventional value of the name if the value or its device is unknown; else `value`."""
    if value.kind is not Kind.UNKNOWN:
        return Value(Kind.TENSOR, Device.CPU) if value.holds_tensors and name in conventions.HOST_TENSORS else value
    meant = _meant_by(name)
    if meant is None:
        return value
    if meant.kind is Kind.MODULE:
        return meant._replace(device=value.device, because=value.because, among=value.among)
    if meant.kind is Kind.LOADER:
        batch = BATCH._replace(device=value.device, because=value.because, sources=value.sources)
        return meant._replace(element=batch, sources=value.sources)
    return meant


@functools.lru_cache(maxsize=10_000)
def _meant_by(name: str) -> Value | None:
    lower = name.lower()
    if lower.endswith(conventions.LOADER_ENDINGS):
        return Value(Kind.LOADER, element=BATCH)
    if conventions.MAKERS.match(lower):
        return None
    if name in conventions.MODEL_NAMES or lower.endswith(conventions.MODEL_ENDINGS):
        return Value(Kind.MODULE)
    if name in conventions.CRITERION_NAMES or lower.endswith(conventions.CRITERION_ENDINGS):
        return Value(Kind.MODULE, ref="criterion")
    if name in conventions.OPTIMIZER_NAMES or lower.endswith(conventions.OPTIMIZER_ENDINGS):
        return Value(Kind.OPTIMIZER)
    return Value(Kind.SCALER) if name in conventions.SCALER_NAMES else None
