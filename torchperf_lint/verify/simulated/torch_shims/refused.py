"""Functions of CUDA programs that the simulated device does not model at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import cuda
from torch.cuda import comm, gds, green_contexts, jiterator, nccl, sparse, tunable
from torch.nn.parallel import comm as parallel_comm

from torchperf_lint.verify.simulated.torch_shims.patching import Faces, refusing

if TYPE_CHECKING:
    from types import ModuleType

faces = Faces()


def _own_names(module: ModuleType) -> list[str]:
    """The functions and classes that the module defines."""
    return [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]


faces.refuse(torch.multiprocessing, ["spawn"], "processes of torch.multiprocessing.")
faces.refuse(cuda.memory, ["_record_memory_history", "_snapshot", "_dump_snapshot"], "torch.cuda.memory.")
for _module in (cuda.graphs, cuda.memory):
    faces.refuse(_module, _module.__all__, f"{_module.__name__}.")
for _module in (gds, green_contexts, nccl, sparse, tunable):
    faces.refuse(_module, _own_names(_module), f"{_module.__name__}.")
faces.set(nccl, "version", lambda: (2, 29, 7))  # that of the builds for CUDA; programs ask it what types they may send
for _name in _own_names(jiterator):  # making such a function is harmless, and torch does it for itself
    faces.set(jiterator, _name, lambda *arguments, **keywords: refusing("torch.cuda.jiterator"))
for _module in (comm, parallel_comm):
    faces.refuse(_module, comm.__all__, "torch.cuda.comm.")
