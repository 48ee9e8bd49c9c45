"""A program on a real GPU: its waits by PyTorch's debug mode and by the profiler, its copies, the time of its steps."""

from __future__ import annotations

from torchperf_lint.verify.counters.session import MODES, Counters, install

__all__ = ["MODES", "Counters", "install"]
