"""Words without which a file has nothing to do with an accelerator, nor with a framework that would use one."""

from __future__ import annotations

ACCELERATOR_STEMS = (
    *("cuda", "CUDA", "Cuda", "device", "Device", "mps", "gpu", "GPU"),
    *("ccelerat", "ightning", "rainer", "abric", "deepspeed", "ignite", "fastai", "omposer"),
)
"""In names and options of files that speak of an accelerator; a call of `.to(...)` does so as well."""

ACCELERATOR_WORDS = (*ACCELERATOR_STEMS, ".to(")
"""A file with none of these is CPU-only: no rule about waits, copies or loaders speaks in it."""

CPU_TUNING = ("torch.cpu.amp", "intel_extension_for_pytorch", "intel_pytorch_extension")
"""A file that uses one of these trains on the CPU."""
