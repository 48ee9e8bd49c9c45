"""Words that a file contains if it has anything to do with an accelerator, or with a framework that would use one."""

from __future__ import annotations

ACCELERATOR_STEMS = (
    *("cuda", "CUDA", "Cuda", "device", "Device", "mps", "gpu", "GPU"),
    *("ccelerat", "ightning", "rainer", "abric", "deepspeed", "ignite", "fastai", "omposer"),
)
"""Parts of names and options in files that use an accelerator; a call of `.to(...)` counts as well."""

ACCELERATOR_WORDS = (*ACCELERATOR_STEMS, ".to(")
"""A file with none of these is CPU-only: no rule about waits, copies or loaders reports in it."""

CPU_TUNING = ("torch.cpu.amp", "intel_extension_for_pytorch", "intel_pytorch_extension")
"""A file that uses one of these trains on the CPU."""
