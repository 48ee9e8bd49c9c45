"""Untyped internals of torch under our own names."""

from __future__ import annotations

from typing import Any

import torch
from torch.jit import _builtins
from torch.multiprocessing import reductions

core: Any = torch._C
Library: Any = torch.library.Library
StorageWeakRef: Any = reductions.StorageWeakRef
script_builtins: Any = _builtins
