"""Functions that give memory back to the driver, and what makes a process collect its garbage."""

from __future__ import annotations

CACHE_FLUSHES = (
    *(f"torch.{name}.empty_cache" for name in "cuda cuda.memory mps xpu xpu.memory npu mlu musa".split()),
    *("torch.accelerator.empty_cache", "torch.accelerator.memory.empty_cache"),
    *("accelerate.utils.clear_device_cache", "accelerate.utils.memory.clear_device_cache"),
    *("diffusers.training_utils.free_memory", "diffusers.utils.torch_utils.empty_device_cache"),
)
"""Give the free segments of the caching allocator back to the driver, which waits for the device."""

COLLECTIONS = ("gc.collect",)

SHARED_FLUSHES = ("torch.cuda.ipc_collect",)
"""Look through the memory that was shared with other processes."""

KEPT_BY_HAND = ("gc.disable", "gc.freeze")
"""A program that calls these collects its garbage where it likes: to do it by hand is then the faster way."""
