"""The shims of automatic mixed precision: autocasting for "cuda" is autocasting for the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchperf_lint.verify.simulated import autocast
from torchperf_lint.verify.simulated.names import BACKEND
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()


def _name(value: Any) -> Any:
    return BACKEND if value == "cuda" else value


@faces.wrap(torch, "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype", "is_autocast_enabled")
def _with_backend_name(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    if not any(isinstance(each, str) for each in (*arguments, *keywords.values())):
        arguments = (BACKEND, *arguments)  # without a device these mean CUDA
    return original(*map(_name, arguments), **{name: _name(value) for name, value in keywords.items()})


@faces.replace(torch, "get_autocast_gpu_dtype")
def _get_gpu_dtype() -> torch.dtype:
    return torch.get_autocast_dtype(BACKEND)


@faces.replace(torch, "set_autocast_gpu_dtype")
def _set_gpu_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype(BACKEND, dtype)


@faces.wrap(torch, "clear_autocast_cache")
def _clear_cache(original: Callable[[], None]) -> None:
    autocast.forget_weights()
    original()
