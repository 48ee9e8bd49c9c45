"""Layers whose parameters make other parameters redundant."""

from __future__ import annotations

CONVOLUTIONS = frozenset(
    f"torch.nn.{name}" for name in "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d".split()
)
BIAS_PLACE = 7
"""The 0-based position of their `bias`, which is True by default."""

BATCH_NORMS = frozenset(f"torch.nn.{name}" for name in "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm".split())
"""Subtract the mean of each channel, and with it any constant that was added to the channel."""
