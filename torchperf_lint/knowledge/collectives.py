"""Collectives: which ones hold the host, and the words by which a test asks whether there are other processes."""

from __future__ import annotations

import re

BARRIERS = frozenset({"torch.distributed.barrier", "torch.distributed.monitored_barrier"})

OF_OBJECTS = frozenset(
    {
        *(
            f"torch.distributed.{name}"
            for name in ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list")
        ),
        *(f"accelerate.utils.{name}" for name in ("gather_object", "broadcast_object_list")),
    }
)
"""Collectives that pickle what they are given: its size goes round first, and the host has to know it."""

BARRIER_METHODS = frozenset({"wait_for_everyone"})
"""Accelerate's barriers, on whatever object they are called."""

ASKS_FOR_OTHERS = re.compile(r"dist|world|rank|ddp|process|multi_?gpu|num_gpus|accelerator|barrier")
"""What a test is about that asks whether there are other processes."""
