"""Linear algebra where CUDA's libraries offer less than the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.verify.simulated.kernels import run

if TYPE_CHECKING:
    import torch
    from torch._ops import OpOverload

_DRIVER = "gels"


def lstsq(
    operator: OpOverload[..., Any],
    /,
    matrix: torch.Tensor,
    other: torch.Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    **outputs: torch.Tensor,
) -> Any:
    """`linalg_lstsq`: CUDA's only driver assumes full rank and does not return the rank."""
    if driver is not None and driver.lower() != _DRIVER:
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    return run(operator, matrix, other, rcond, driver=_DRIVER, **outputs)
