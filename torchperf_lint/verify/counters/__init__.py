"""Measures a program on a real GPU: waits by PyTorch's debug mode and by the profiler, copies, and step times."""

from __future__ import annotations

from torchperf_lint.verify.counters.session import MODES, Counters, install

__all__ = ["MODES", "Counters", "install"]
