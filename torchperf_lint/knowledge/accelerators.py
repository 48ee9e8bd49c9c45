"""Words without which a file has nothing to do with an accelerator, nor with a framework that would use one."""

from __future__ import annotations

ACCELERATOR_WORDS = (
    *("cuda", "CUDA", "Cuda", "device", "Device", ".to(", "mps", "gpu", "GPU"),
    *("ccelerat", "ightning", "rainer", "abric", "deepspeed", "ignite", "fastai", "omposer"),
)
"""A file with none of these is CPU-only: no rule about waits, copies or loaders speaks in it."""

CPU_TUNING_WORDS = ("torch.cpu.amp", "intel_extension_for_pytorch", "intel_pytorch_extension")
"""A file with one of these trains on the CPU."""
