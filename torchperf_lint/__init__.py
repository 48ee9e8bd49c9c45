"""torchperf-lint: find, fix and prove away PyTorch performance anti-patterns."""

__version__ = "0.1.0"
