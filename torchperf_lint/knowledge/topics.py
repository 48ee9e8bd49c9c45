"""What a file may speak of that is asked of a whole project: another accelerator than CUDA, graphs that are traced."""

from __future__ import annotations

import re

OTHER_ACCELERATORS = "other accelerators"
"""Apple's MPS and others without float64, or whichever accelerator there is."""

TRACED = "traced"
"""`torch.jit.trace`, `torch.onnx.export`, `torch.export.export`: what Python works out is a constant of the graph."""

CUDA_AVAILABLE = "cuda available"
"""What may raise where there is no CUDA."""

PROGRAM = "program"
"""It can be run as a program."""


def _word(name: bytes) -> re.Pattern[bytes]:
    return re.compile(name + rb"(?![^\W_])(?<![^\W_]" + name + rb")")  # a search for letters is fast


TOPICS = {
    OTHER_ACCELERATORS: (
        *map(_word, (b"mps", b"xpu", b"npu", b"xla")),
        *(re.compile(name + rb"(?<![^\W_]" + name + rb")") for name in (b"MPS", b"XPU", b"NPU", b"XLA")),
        *map(re.compile, (rb"torch\.accelerator", rb"current_accelerator")),
    ),
    TRACED: (
        *map(re.compile, (rb"jit\.trace", rb"is_tracing", rb"torch\.onnx", rb"onnx\.export", rb"in_onnx_export")),
        *map(re.compile, (rb"torch\.export", rb"export\.export", rb"make_fx", rb"to_onnx\(", rb"to_torchscript\(")),
    ),
    CUDA_AVAILABLE: tuple(map(re.compile, (rb"nccl", rb"cuda\.is_available", rb"cuda\.set_device"))),
    PROGRAM: (re.compile(rb"__main__"),),
}
"""Topic -> texts of which one shows that a file speaks of it; words in comments and prose do not count."""

IMPORTS = {TRACED: ("torch.jit.trace", "torch.onnx.", "torch.export.")}
"""Topic -> how the names begin that a file imports of it."""
