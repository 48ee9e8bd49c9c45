"""Autocasting on the device: CUDA's lists of operators, read from the header that ships with torch."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from torchperf_lint.verify.simulated.internals import core
from torchperf_lint.verify.simulated.names import BACKEND, on_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

    Operator = OpOverload[..., Any]

KEY = "AutocastPrivateUse1"
_KEYS = core.DispatchKeySet(core.DispatchKey.AutocastPrivateUse1)
_HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
_ENTRY = re.compile(r'_\((?:ADD_NS\(\w+\),[\s\\]*"([\w.]+)"|(\w+)(?:, (\w+))?\))')
_UNSAFE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)


class Policy(enum.Enum):
    """What autocasting does to an operator; the value is the name of its list in the header."""

    LOWER = "AT_FORALL_LOWER_PRECISION_FP"
    """Inputs are cast to the lower precision."""

    FLOAT32 = "AT_FORALL_FP32"
    """Inputs are cast to float32."""

    FLOAT32_RESULT = "AT_FORALL_FP32_SET_OPT_DTYPE"
    """The result is requested as float32, unless the call names a dtype."""

    FLOAT32_NORM = "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE"
    """The same, by an overload that takes a dtype."""

    PROMOTE = "AT_FORALL_PROMOTE"
    """Inputs are cast to the widest dtype among them."""


def operators_by_policy() -> dict[Policy, tuple[str, ...]]:
    """The operators of each list, with overload, without namespace."""
    header = _HEADER.read_text(encoding="utf-8")
    return {policy: _entries(header, policy.value) for policy in Policy}


def _entries(header: str, macro: str) -> tuple[str, ...]:
    definition = re.search(rf"^#define {macro}\(_\)((?:.*\\\n)*.*\n)", header, re.MULTILINE)
    if definition is None:
        raise ValueError(f"{_HEADER} has no list {macro}")
    found = _ENTRY.findall(definition[1])
    return tuple(full or (f"{name}.{overload}" if overload else name) for full, name, overload in found)


def register(library: Any) -> None:
    """Register an autocasting kernel for every operator of the lists; the others fall through."""
    makers: dict[Policy, Callable[[Operator], Callable[..., Any]]] = {
        Policy.LOWER: _in_lower_precision,
        Policy.FLOAT32: _in_float32,
        Policy.FLOAT32_RESULT: _with_float32_result,
        Policy.FLOAT32_NORM: _with_float32_result,
        Policy.PROMOTE: _in_widest,
    }
    for policy, names in operators_by_policy().items():
        for name in names:
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, makers[policy](operator), KEY)
    library.impl("binary_cross_entropy", _refuse_binary_cross_entropy, KEY)


def _in_lower_precision(operator: Operator) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        return _call(operator, arguments, keywords, torch.get_autocast_dtype(BACKEND))

    return kernel


def _in_float32(operator: Operator) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        return _call(operator, arguments, keywords, torch.float32)

    return kernel


def _in_widest(operator: Operator) -> Callable[..., Any]:
    def kernel(*arguments: Any, **keywords: Any) -> Any:
        widest = torch.get_autocast_dtype(BACKEND)
        for each in (*arguments, *keywords.values()):
            for tensor in each if isinstance(each, (list, tuple)) else (each,):
                if _is_eligible(tensor) and tensor.dtype == torch.float32:
                    widest = torch.float32
        return _call(operator, arguments, keywords, widest)

    return kernel


def _with_float32_result(operator: Operator) -> Callable[..., Any]:
    """Request a float32 result from sums, softmaxes and norms of floating-point input."""

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        with core._ExcludeDispatchKeyGuard(_KEYS):
            names = [each.name for each in operator._schema.arguments]
            given = dict(zip(names, arguments, strict=False)) | keywords
            if given.get("dtype") is None and _is_eligible(given["self"]):
                given["dtype"] = torch.float32
                return operator.overloadpacket(**given)
            return operator(*arguments, **keywords)

    return kernel


def _refuse_binary_cross_entropy(*arguments: Any, **keywords: Any) -> NoReturn:
    raise RuntimeError(_UNSAFE)


def _call(operator: Operator, arguments: tuple[Any, ...], keywords: dict[str, Any], dtype: torch.dtype) -> Any:
    with core._ExcludeDispatchKeyGuard(_KEYS):
        return operator(
            *[_cast(each, dtype) for each in arguments], **{name: _cast(each, dtype) for name, each in keywords.items()}
        )


def _is_eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype != torch.float64
        and on_device(value)
    )


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_cast(each, dtype) for each in value])
    if not _is_eligible(value) or value.dtype == dtype:
        return value
    return _cast_weight(value, dtype) if _is_cached(value, dtype) else value.to(dtype)


# ---- each weight is cast once in a region

_weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def _is_cached(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    return (
        dtype == torch.get_autocast_dtype(BACKEND)
        and tensor.dtype == torch.float32
        and tensor.requires_grad
        and tensor.is_leaf
        and tensor._base is None
        and torch.is_autocast_cache_enabled()
        and torch.is_grad_enabled()
    )


def _cast_weight(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cached = _weights.get(id(weight))
    if cached is None:
        cached = _weights[id(weight)] = (weight, weight.to(dtype))
    return cached[1]


def forget_weights() -> None:
    """Forget the cached weights: the region is over."""
    _weights.clear()
