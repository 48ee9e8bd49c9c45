"""Functions that return memory to the driver, and calls that take over garbage collection."""

from __future__ import annotations

CACHE_FLUSHES = (
    *(f"torch.{name}.empty_cache" for name in "cuda cuda.memory mps xpu xpu.memory npu mlu musa".split()),
    *("torch.accelerator.empty_cache", "torch.accelerator.memory.empty_cache"),
    *("accelerate.utils.clear_device_cache", "accelerate.utils.memory.clear_device_cache"),
    *("diffusers.training_utils.free_memory", "diffusers.utils.torch_utils.empty_device_cache"),
)
"""Return the free segments of the caching allocator to the driver, which waits for the device."""

COLLECTIONS = ("gc.collect",)

SHARED_FLUSHES = ("torch.cuda.ipc_collect",)
"""Search the memory that was shared with other processes."""

KEPT_BY_HAND = ("gc.disable", "gc.freeze")
"""A program that calls these controls its garbage collection: explicit collection is then the faster way."""
