"""The module that torch expects of a backend: `torch.cuda`, with a few functions that only backends have."""

from __future__ import annotations

from typing import Any

import torch


class BackendModule:
    """The module of the simulated device."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cuda, name)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """The dtypes that autocasting may cast to."""
        return [torch.float16, torch.bfloat16, torch.float32]
