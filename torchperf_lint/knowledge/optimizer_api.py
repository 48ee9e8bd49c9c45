"""torch.optim by release: the effect of `zero_grad`, and which optimizers run as one kernel."""

from __future__ import annotations

KEEPS_BY_DEFAULT = "<2.0"
"""`zero_grad()` fills the gradients with zeros; later releases set them to None unless configured otherwise."""

TAKES_SET_TO_NONE = ">=1.7"

FOREACH_CLASSES = tuple(
    f"torch.optim.{name}"
    for name in "Adadelta Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD Adafactor Muon".split()
)
"""Optimizers that can update all parameters by a few kernels for lists of tensors; on CUDA they do by default."""

FUSED_SINCE = {"torch.optim.Adam": ">=2.0", "torch.optim.AdamW": ">=2.0", "torch.optim.SGD": ">=2.3"}
"""Optimizers with one kernel for a whole update on CUDA, which reads a scaler's inf check on the device."""

CLIPS_TO_NORM = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")
"""Functions that clip gradients to a norm, which they check for NaN and infinity on request."""

NONFINITE_POSITION = 3
"""The 0-based position of their `error_if_nonfinite`."""
