"""Automatic mixed precision by release: the names it has had, and how their arguments are ordered."""

from __future__ import annotations

LEGACY = {
    "torch.cuda.amp.autocast": ("autocast", ("enabled", "dtype", "cache_enabled")),
    "torch.cuda.amp.autocast_mode.autocast": ("autocast", ("enabled", "dtype", "cache_enabled")),
    "torch.cuda.amp.GradScaler": ("GradScaler", ()),
    "torch.cuda.amp.grad_scaler.GradScaler": ("GradScaler", ()),
}
"""Old names: the new one in `torch.amp`, and the positional parameters that have another order there."""

DEPRECATED = ">=2.4"
"""The old names emit a deprecation warning at each use."""

SINCE = {"autocast": ">=1.10", "GradScaler": ">=2.3"}
"""The releases that have the new names."""

APEX = ("apex.amp.initialize",)

AUTOCASTS = (
    *("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"),
    *("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"),
)
"""Their second parameter is the dtype; the first is the device, or in torch.cuda.amp `enabled`."""

SCALERS = (
    *("torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler"),
    *("torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"),
)
