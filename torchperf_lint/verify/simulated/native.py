"""Which operators have a kernel of their own on CUDA, or none: read from the operator list that ships with torch."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

_LIST = ("packaged", "ATen", "native", "native_functions.yaml")
_FUNCTION = re.compile(r"- func: ([\w.]+)\(")
_DELEGATE = re.compile(r"  structured_delegate: ([\w.]+)")
_KERNEL = re.compile(r"    ([\w, ]+):")


def operators_with_cuda_kernel() -> set[str]:
    """The operators with a kernel of their own on CUDA: their names, with overload, without namespace."""
    return {name for name, keys in _kernels_by_operator().items() if "CUDA" in keys}


def operators_without_cuda_kernel() -> set[str]:
    """Host operators without a CUDA kernel, except those that replace CUDA kernels here."""
    return {
        name
        for name, keys in _kernels_by_operator().items()
        if "CPU" in keys and "CUDA" not in keys and not any(key.startswith("Composite") for key in keys)
        if "_for_cpu" not in name
    }


@functools.cache
def _kernels_by_operator() -> dict[str, set[str]]:
    """For each operator the dispatch keys that it has kernels for."""
    kernels: dict[str, set[str]] = {}
    delegates: dict[str, str] = {}
    name = ""
    in_dispatch = False
    for line in _operator_list().read_text(encoding="utf-8").splitlines():
        if function := _FUNCTION.match(line):
            name, in_dispatch = function[1], False
            kernels[name] = set()
        elif delegate := _DELEGATE.match(line):
            delegates[name] = delegate[1]
        elif line.startswith("  ufunc_inner_loop:"):  # generated for the CPU and CUDA alike
            kernels[name] |= {"CPU", "CUDA"}
        elif line.startswith("  dispatch:"):
            in_dispatch = True
        elif in_dispatch and (keys := _KERNEL.match(line)):
            kernels[name] |= {key.strip() for key in keys[1].split(",")}
        elif line.strip() and not line.startswith("    "):
            in_dispatch = False
    for name, delegate_name in delegates.items():
        kernels[name] |= kernels[delegate_name]
    return kernels


def _operator_list() -> Path:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("torchgen, which ships with torch, is not installed")
    return Path(spec.origin).parent.joinpath(*_LIST)
