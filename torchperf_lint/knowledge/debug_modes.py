"""Debugging aids of torch and its runtime that cost time in every step while they are on."""

from __future__ import annotations

ANOMALY = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")
ANOMALY_CONTEXTS = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
"""Test each gradient for NaN, which the host reads, and record the stack of each forward operation."""

RANGES = ("torch.autograd.profiler.emit_nvtx", "torch.autograd.profiler.emit_itt")
"""Mark every operation for an external profiler."""

PROFILERS = ("torch.profiler.profile", "torch.autograd.profiler.profile", "torch.profiler.profiler.profile")
"""Record every operation; with a `schedule` only those of some steps."""

SYNC_DEBUG = ("torch.cuda.set_sync_debug_mode",)

TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.trainer.Trainer")

COUNTING_PROFILERS = tuple(
    f"lightning.pytorch.{module}.AdvancedProfiler"
    for module in ("profilers", "profilers.advanced", "profiler", "profiler.advanced")
)
"""Run Python's own profiler, which records every function call; Lightning's others record hooks, or a few steps."""

SHORT_RUNS = ("fast_dev_run", "max_steps", "limit_train_batches", "overfit_batches", "max_time")
"""Arguments of the trainer that end a run early, as in a run for a profile."""

ENVIRONMENT = {
    "CUDA_LAUNCH_BLOCKING": ("1", "makes the host wait for every kernel"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("1", "asks the driver for the memory of every tensor, and waits for it"),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "makes all ranks check every collective with each other"),
}
"""Variables, the value that enables the aid, and its effect."""

WORDS = ("detect_anomaly", "emit_nvtx", "emit_itt", "sync_debug_mode", "rofile(", "profiler=")
"""What a file must mention for one of the others."""
