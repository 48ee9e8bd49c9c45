"""Automatic mixed precision by release: the names it has had, and how their arguments are ordered."""

from __future__ import annotations

LEGACY = {
    "torch.cuda.amp.autocast": ("autocast", ("enabled", "dtype", "cache_enabled")),
    "torch.cuda.amp.autocast_mode.autocast": ("autocast", ("enabled", "dtype", "cache_enabled")),
    "torch.cuda.amp.GradScaler": ("GradScaler", ()),
    "torch.cuda.amp.grad_scaler.GradScaler": ("GradScaler", ()),
}
"""Old names: the new one in `torch.amp`, and the positional parameters that are ordered otherwise there."""

DEPRECATED = ">=2.4"
"""The old names warn at each use that they are deprecated."""

SINCE = {"autocast": ">=1.10", "GradScaler": ">=2.3"}
"""The releases that have the new names."""

APEX = ("apex.amp.initialize",)
