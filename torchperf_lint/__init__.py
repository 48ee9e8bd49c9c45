"""torchperf-lint: find, fix and prove away PyTorch performance anti-patterns."""

from __future__ import annotations

__version__ = "0.1.0"
