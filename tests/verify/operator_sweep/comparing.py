"""What counts as the same result: bits, dtypes, shapes, strides, views and devices."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten

_ATTRIBUTES = "dtype shape layout requires_grad".split()
_QUESTIONS = "stride is_conj is_neg _is_view".split()


class Difference(NamedTuple):
    """How a result differs from the host's; `size` is the largest difference of values, relative to the largest."""

    kind: str
    text: str
    size: float = 0.0


def first_difference(found: Any, expected: Any, device: str) -> Difference | None:
    """Compare what the device gave with what the host gave; every tensor must lie on `device`."""
    found_leaves, found_structure = tree_flatten(found)
    expected_leaves, expected_structure = tree_flatten(expected)
    if found_structure != expected_structure:
        return Difference("structure", f"{found_structure}, not {expected_structure}")
    for a, b in zip(found_leaves, expected_leaves, strict=True):
        difference = _compare(a, b, device)
        if difference is not None:
            return difference
    return None


def _compare(found: Any, expected: Any, device: str) -> Difference | None:
    if type(found) is not type(expected):
        return Difference("type", f"{type(found)}, not {type(expected)}")
    if not isinstance(expected, torch.Tensor):
        both_nan = expected != expected and found != found  # noqa: PLR0124
        return None if found == expected or both_nan else Difference("value", f"{found!r}, not {expected!r}")
    if found.device.type != device:
        return Difference("device", f"{found.device}, not {device}")
    for name in _ATTRIBUTES:
        if getattr(found, name) != getattr(expected, name):
            return Difference(name, f"{getattr(found, name)}, not {getattr(expected, name)}")
    for name in _QUESTIONS:
        if name == "stride" and expected.layout is not torch.strided:
            continue
        if getattr(found, name)() != getattr(expected, name)():
            return Difference(name, f"{getattr(found, name)()}, not {getattr(expected, name)()}")
    return _compare_values(found, expected)


def _compare_values(found: torch.Tensor, expected: torch.Tensor) -> Difference | None:
    a, b = _numbers(found), _numbers(expected)
    same = ((a == b) & (a.signbit() == b.signbit())) | (a.isnan() & b.isnan())
    if same.all():
        return None
    a, b = a[~same].double(), b.double()
    size = (a - b[~same]).abs().max() / b.abs().max()
    return Difference("values", f"{(~same).sum()} of {same.numel()}", size.item())


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor of either side, as real ones on the host."""
    tensor = tensor.detach().cpu()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
