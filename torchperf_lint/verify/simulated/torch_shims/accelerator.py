"""The shim of `torch.accelerator`: that of `torch.cuda` under other names."""

from __future__ import annotations

from typing import Any

import torch
from torch import accelerator, cuda

from torchperf_lint.verify.simulated.names import index_of
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

faces = Faces()

_SAME_IN_CUDA = """
    is_available device_count synchronize empty_cache memory_allocated memory_reserved max_memory_allocated
    max_memory_reserved memory_stats reset_peak_memory_stats reset_accumulated_memory_stats
    """.split()
_ELSEWHERE = "current_stream set_stream device_index".split()


@faces.replace(accelerator, "current_accelerator")
def _current_accelerator(check_available: bool = False) -> torch.device:
    return torch.device("cuda")


@faces.replace(accelerator, "current_device_index", "current_device_idx")
def _current_device_index() -> int:
    return cuda.current_device()


@faces.replace(accelerator, "set_device_index", "set_device_idx")
def _set_device_index(device: Any) -> None:
    index_of(device)


@faces.replace(accelerator, "get_memory_info")
def _get_memory_info(device: Any = None) -> tuple[int, int]:
    return cuda.mem_get_info(device)


def _forward(name: str) -> None:
    def face(*arguments: Any, **keywords: Any) -> Any:
        return getattr(cuda, name)(*arguments, **keywords)

    for owner in (accelerator, getattr(accelerator, "memory", None)):
        if hasattr(owner, name):
            faces.set(owner, name, face)


for _name in _SAME_IN_CUDA:
    _forward(_name)
faces.refuse(
    accelerator,
    sorted(
        set(accelerator.__all__)
        - set(_SAME_IN_CUDA)
        - set(_ELSEWHERE)
        - {
            "current_accelerator",
            "current_device_index",
            "current_device_idx",
            "set_device_index",
            "set_device_idx",
            "get_memory_info",
        }
    ),
    "torch.accelerator.",
)
