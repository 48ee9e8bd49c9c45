"""The shims of profilers: they only see the host's work, because the device has no timing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from torch.cuda import nvtx, profiler

from torchperf_lint.verify.simulated.names import BACKEND
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

faces = Faces()


@faces.wrap(torch.autograd.profiler.profile, "__init__")
def _init_profile(original: Callable[..., None], profile: Any, *arguments: Any, **keywords: Any) -> None:
    """Disable torch's search for CUDA events, which warns of each missing one."""
    if keywords.get("use_device") in ("cuda", BACKEND) or keywords.get("use_cuda"):
        keywords.pop("use_cuda", None)  # gone since torch 2.14
        keywords.update(use_device=None, use_cpu=True)
    original(profile, *arguments, **keywords)


def _mark(*arguments: Any, **keywords: Any) -> int:
    """A no-op for the ranges that a program names."""
    return 0


@contextlib.contextmanager
def _range(message: str, *arguments: Any, **keywords: Any) -> Iterator[None]:
    yield


faces.replace(nvtx, "range_push", "range_pop", "range_start", "range_end", "mark")(_mark)
faces.replace(nvtx, "range")(_range)
faces.replace(profiler, "init", "start", "stop")(_mark)
