"""Topics: what a file may mention that matters for a whole project, such as other accelerators or tracing."""

from __future__ import annotations

import re

OTHER_ACCELERATORS = "other accelerators"
"""Apple's MPS and others without float64, or any available accelerator."""

TRACED = "traced"
"""`torch.jit.trace`, `torch.onnx.export`, `torch.export.export`: Python values become constants of the graph."""

SCRIPTED = "scripted"
"""`torch.jit.script`: functions become TorchScript, which has types of its own."""

SCRIPTS_VALUES = "scripts values"
"""`torch.jit.script(model)`: what becomes TorchScript is not marked by a decorator where it is defined."""

CUDA_AVAILABLE = "cuda available"
"""Code that may raise without CUDA."""

DEFINES_CUDA = "defines cuda"
"""A method `cuda`: objects that are no tensors move by `x.cuda()`, and may have no method `to`."""

CHECKS_OFF = "checks off"
"""`Distribution._validate_args = False`: no distribution of the program checks anything unless it is asked to."""

PLACES_BY_DEFAULT = "places by default"
"""`torch.set_default_device(device)`, and what stood for it before: new tensors that name no device may not be on the
CPU."""

PROGRAM = "program"
"""The file can be run as a program."""


def _word(name: bytes) -> re.Pattern[bytes]:
    return re.compile(name + rb"(?![^\W_])(?<![^\W_]" + name + rb")")  # a literal prefix is fast


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
    SCRIPTED: tuple(map(re.compile, (rb"jit\.script", rb"is_scripting", rb"ScriptModule", rb"jit\.export"))),
    SCRIPTS_VALUES: (
        *map(re.compile, (rb"(?m)^[^@\n]*jit\.script\b", rb"ScriptModule", rb"jit\.export", rb"is_scripting")),
    ),
    CUDA_AVAILABLE: tuple(map(re.compile, (rb"nccl", rb"cuda\.is_available", rb"cuda\.set_device"))),
    DEFINES_CUDA: (re.compile(rb"def cuda\b"),),
    CHECKS_OFF: (re.compile(rb"Distribution\._validate_args\s*=\s*False"),),
    PLACES_BY_DEFAULT: (
        re.compile(rb"\bset_default_device\s*\((?!\s*[\"']cpu)"),
        re.compile(rb"\bset_default_tensor_type\s*\((?!\s*[\"']?torch\.(?!cuda)\w*Tensor)"),
    ),
    PROGRAM: (re.compile(rb"__main__"),),
}
"""Topic -> patterns, one of which shows that a file mentions it; comments and prose do not count."""

IMPORTS = {
    TRACED: ("torch.jit.trace", "torch.onnx.", "torch.export."),
    SCRIPTED: ("torch.jit.script",),
    SCRIPTS_VALUES: ("torch.jit.script",),
}
"""Topic -> prefixes of imported names that show it."""
