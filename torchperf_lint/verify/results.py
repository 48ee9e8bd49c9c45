"""Exact (bit for bit) records of a program's results, and their comparison."""

from __future__ import annotations

import base64
import math
import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch

_TRAITS = (
    "type",
    "dtype",
    "shape",
    "strides",
    "device",
    "requires_grad",
    "has a graph",
    "is for inference only",
)
_PLAIN = (bool, int, str, type(None))


class NotComparable(TypeError):
    """A result has no exact record; the text says where and what."""


def encode(value: Any, where: str = "results") -> dict[str, Any]:
    """A nested structure of containers, tensors, arrays and plain values as JSON data, without loss.

    A tensor keeps its type, dtype, shape, strides and kind of device, whether it needs a gradient and has a graph, and
    every bit.
    """
    import torch

    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value)
    if type(value) is float:
        return {"type": kind, "value": value.hex()}
    if type(value) is complex:
        return {"type": kind, "value": [value.real.hex(), value.imag.hex()]}
    if type(value) in _PLAIN:
        return {"type": kind, "value": value}
    if isinstance(value, dict):
        pairs = [[repr(key), encode(each, f"{where}[{key!r}]")] for key, each in value.items()]
        return {"type": kind, "pairs": pairs}
    if isinstance(value, (list, tuple)):
        return {"type": kind, "items": [encode(each, f"{where}[{place}]") for place, each in enumerate(value)]}
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        strides = [stride // (value.itemsize or 1) for stride in value.strides]
        return {
            "type": f"numpy {kind}",
            "dtype": value.dtype.str,
            "strides": _meaningful(strides, value.shape),
            "items": [_encode_tensor(torch.as_tensor(value.copy()))],
        }
    if isinstance(value, (torch.dtype, torch.device, torch.Size)):
        return {"type": kind, "value": str(value)}
    raise NotComparable(
        f"{where} is a {type(value).__module__}.{kind}: results are tensors, numbers, strings and containers of them"
    )


def _encode_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    import torch

    host = tensor.detach().cpu().contiguous()
    data = bytes(host.reshape(-1).view(torch.uint8).tolist()) if host.numel() else b""
    return {
        "type": type(tensor).__name__,
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "strides": _meaningful(tensor.stride(), tensor.shape),
        "device": tensor.device.type,
        "requires_grad": tensor.requires_grad,
        "has a graph": tensor.grad_fn is not None,
        "is for inference only": tensor.is_inference(),
        "data": base64.b64encode(data).decode(),
    }


def _meaningful(strides: Sequence[int], shape: Sequence[int]) -> list[int | None]:
    """The strides that matter: none of an empty tensor, nor of a dimension of size one."""
    return [stride if size > 1 and 0 not in shape else None for stride, size in zip(strides, shape, strict=True)]


def random_state() -> dict[str, Any]:
    """The states of the generators of Python, NumPy (if loaded) and torch, host and device."""
    import torch

    states: dict[str, Any] = {"python": repr(random.getstate()), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    if "numpy" in sys.modules:
        states["numpy"] = repr(sys.modules["numpy"].random.get_state())
    return {name: encode(state) for name, state in states.items()}


def settings() -> dict[str, str]:
    """Process-wide settings that a program may have changed and that affect later computations."""
    import torch

    values = {
        "the default dtype": torch.get_default_dtype(),
        "the recording of gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocasting": torch.is_autocast_enabled(),
        "anomaly detection": torch.is_anomaly_enabled(),
        "the precision of matrix products": torch.get_float32_matmul_precision(),
        "the use of deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.deterministic": torch.backends.cudnn.deterministic,
        "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
    }
    return {name: str(value) for name, value in values.items()}


def differences(
    before: Any, after: Any, tolerance: float = 0.0, *, values: bool = True, types: bool = True
) -> list[str]:
    """The differences between two encoded results, one line each.

    Numbers may differ by a relative `tolerance`, and NaN equals NaN. Without `values` only types and shapes are
    compared; without `types`, ints, floats and zero-dimensional tensors are interchangeable, of any dtype.
    """
    found = places_that_differ(before, after, tolerance, values=values, types=types)
    return [f"{place}: {text}" for place, text in found]


def places_that_differ(
    before: Any, after: Any, tolerance: float = 0.0, *, values: bool = True, types: bool = True
) -> Iterator[tuple[str, str]]:
    """The same as pairs of the place within the results and what differs there."""
    yield from _differences(before, after, tolerance if values else None, "results", types=types)


def _differences(
    before: Any, after: Any, tolerance: float | None, where: str, *, types: bool
) -> Iterator[tuple[str, str]]:
    if not types and tolerance is not None:
        old, new = _number(before), _number(after)
        if old is not None and new is not None:
            if not _near(old, new, tolerance):
                yield where, f"{_shown(before)} became {_shown(after)}"
            return
    for trait in _TRAITS:
        if before.get(trait) != after.get(trait):
            yield where, f"{trait} {before.get(trait)} became {after.get(trait)}"
            return
    if "pairs" in before:
        names, others = ([name for name, _ in each["pairs"]] for each in (before, after))
        if names != others:
            yield where, f"the keys {', '.join(names)} became {', '.join(others)}"
            return
        for (name, old), (_, new) in zip(before["pairs"], after["pairs"], strict=True):
            yield from _differences(old, new, tolerance, f"{where}[{name}]", types=types)
    elif "items" in before:
        if len(before["items"]) != len(after["items"]):
            yield where, f"{len(before['items'])} items became {len(after['items'])}"
            return
        for place, (old, new) in enumerate(zip(before["items"], after["items"], strict=True)):
            yield from _differences(old, new, tolerance, f"{where}[{place}]", types=types)
    elif tolerance is not None and not _equal(before, after, tolerance):
        yield where, f"{_shown(before)} became {_shown(after)}"


def _equal(before: dict[str, Any], after: dict[str, Any], tolerance: float) -> bool:
    if before == after:
        return True
    old, new = _numbers(before), _numbers(after)
    if old is None or new is None:
        return False
    # Two NaN are equal whatever their bits; zeros differ by sign, and other numbers in any bit.
    return all(_near(a, b, tolerance) for a, b in zip(old, new, strict=True))


def _near(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if not tolerance:
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b))


def _numbers(record: dict[str, Any]) -> list[float] | None:
    """The numbers of a float, or of a tensor of floats; None for anything else."""
    if record["type"] == "float":
        return [float.fromhex(record["value"])]
    if "float" not in record.get("dtype", ""):
        return None
    return [float(each) for each in _decode_tensor(record).reshape(-1).double().tolist()]


def _number(record: dict[str, Any]) -> float | None:
    """A number, or that in a tensor without dimensions; None for anything else."""
    if record["type"] == "float":
        return float.fromhex(record["value"])
    if record["type"] in ("int", "bool"):
        return int(record["value"])
    return _decode_tensor(record).item() if record.get("shape") == [] else None


def _decode_tensor(record: dict[str, Any]) -> torch.Tensor:
    import torch

    data = bytearray(base64.b64decode(record["data"]))
    dtype: torch.dtype = getattr(torch, record["dtype"].removeprefix("torch."))
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(record["shape"])


def _shown(record: dict[str, Any]) -> str:
    if "data" in record:
        text = str(_decode_tensor(record).tolist())
    elif record["type"] == "float":
        text = repr(float.fromhex(record["value"]))
    else:
        text = repr(record.get("value"))
    return text if len(text) <= 80 else f"{text[:77]}..."
