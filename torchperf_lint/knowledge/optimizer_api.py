"""torch.optim by release: what `zero_grad` does, and which optimizers run as one kernel."""

from __future__ import annotations

KEEPS_BY_DEFAULT = "<2.0"
"""`zero_grad()` fills the gradients with zeros; later releases drop them unless told otherwise."""

TAKES_SET_TO_NONE = ">=1.7"
