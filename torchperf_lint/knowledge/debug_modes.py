"""Debugging aids of torch and its runtime that cost time in every step while they are on."""

from __future__ import annotations

ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
ANOMALY_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
"""Test each gradient for NaN, which the host reads, and note the place of each operation of the forward pass."""

RANGES = ("torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt")
"""Mark every operation for an external profiler."""

PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile", "torch.profiler.profiler.profile")
"""Note every operation; with a `schedule` only those of some steps."""

SYNC_DEBUG = ("torch.cuda.set_sync_debug_mode",)

TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.trainer.Trainer")

COUNTING_PROFILERS = tuple(
    f"lightning.pytorch.{module}.AdvancedProfiler"
    for module in ("profilers", "profilers.advanced", "profiler", "profiler.advanced")
)
"""Run Python's own profiler, which notes every call of a function; Lightning's others note hooks, or a few steps."""

SHORT_RUNS = ("fast_dev_run", "max_steps", "limit_train_batches", "overfit_batches", "max_time")
"""Arguments of the trainer by which a run ends early, as one for a profile does."""

ENVIRONMENT = {
    "CUDA_LAUNCH_BLOCKING": ("1", "makes the host wait for every kernel"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("1", "asks the driver for the memory of every tensor, and waits for it"),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "makes all ranks check every collective with each other"),
}
"""Variables, the value that switches the aid on, and what that does."""

WORDS = ("detect_anomaly", "emit_nvtx", "emit_itt", "sync_debug_mode", "rofile(", "profiler=")
"""What a file must mention for one of the others."""
