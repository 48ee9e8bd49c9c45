"""Waits that no line of a user's program can avoid: those inside of a checkpoint, a scaler, a sequence.

A line whose waits all come from these functions is no mistake. A backward pass waits for what the forward pass did, and
is reported there.
"""

from __future__ import annotations

_INSIDE = (
    "torch/storage.py",  # torch.save copies each tensor
    "torch/serialization.py",  # torch.load
    "torch/amp/grad_scaler.py",  # GradScaler.step asks whether a gradient overflowed
    "torch/nn/utils/rnn.py",  # packed sequences have their lengths on the host
    "torch/optim/swa_utils.py",  # AveragedModel counts its updates
)


def is_inside(via: str | None) -> bool:
    """Whether a wait comes from one of these functions, by the innermost line of a library that runs it."""
    return via is not None and via.replace("\\", "/").endswith(_INSIDE)


def is_backward(line: str) -> bool:
    """Whether a line of a program is its backward pass."""
    return ".backward(" in line
