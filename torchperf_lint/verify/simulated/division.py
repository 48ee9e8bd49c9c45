"""Division by a number of the host: CUDA multiplies by its reciprocal, so that the last digit may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.simulated.kernels import run
from torchperf_lint.verify.simulated.names import on_device

if TYPE_CHECKING:
    from torch._ops import OpOverload

    Operator = OpOverload[..., Any]

_COMPUTED_IN = {torch.float16: torch.float32, torch.bfloat16: torch.float32}
"""The dtype that a kernel computes in, where it is not that of its result."""


def divide(division: Operator, product: Operator, /, dividend: Any, divisor: Any, **keywords: Any) -> Any:
    """A division of tensors; `product` is the operator that multiplies in the same form (in place, or `out=`).

    Source: `div_true_kernel_cuda` of torch 2.13, and runs on a GPU.
    """
    is_true = keywords.get("rounding_mode") is None
    is_device = isinstance(dividend, torch.Tensor) and on_device(dividend) and dividend.dtype is not torch.complex32
    if is_true and is_device and _is_of_host(divisor):
        reciprocal = _reciprocal(dividend, divisor)
        outputs = {name: each for name, each in keywords.items() if name != "rounding_mode"}
        return run(product, dividend, reciprocal, **outputs)
    return run(division, dividend, divisor, **keywords)


def _is_of_host(divisor: Any) -> bool:
    """Whether it is a number, or a tensor without dimensions on the host."""
    return not isinstance(divisor, torch.Tensor) or (not divisor.dim() and not on_device(divisor))


def _reciprocal(dividend: torch.Tensor, divisor: Any) -> Any:
    """What the kernel multiplies by: as a number, or as a tensor where that decides on the result's dtype."""
    common = torch.result_type(dividend, divisor)
    if not common.is_floating_point and not common.is_complex:
        common = torch.get_default_dtype()
    kind = torch.complex128 if isinstance(divisor, complex) else torch.float64
    given = divisor if isinstance(divisor, torch.Tensor) else torch.tensor(divisor, dtype=kind)
    reciprocal = given.to(_COMPUTED_IN.get(common, common)).reciprocal()
    is_decided = common is dividend.dtype or not isinstance(divisor, torch.Tensor)
    return reciprocal.item() if is_decided else reciprocal.to(common)
