"""Collectives: which ones block the host, and words in tests for the existence of other processes."""

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
"""Collectives that pickle their argument: its size is sent first, and the host has to know it."""

BARRIER_METHODS = frozenset({"wait_for_everyone"})
"""Accelerate's barriers, on whatever object they are called."""

ASKS_FOR_OTHERS = re.compile(r"dist|world|rank|ddp|process|multi_?gpu|num_gpus|accelerator|barrier")
"""What a test for the existence of other processes mentions."""

SEARCHES_UNUSED = {
    "torch.nn.parallel.DistributedDataParallel": "find_unused_parameters",
    "torch.nn.parallel.distributed.DistributedDataParallel": "find_unused_parameters",
    "accelerate.DistributedDataParallelKwargs": "find_unused_parameters",
    "accelerate.utils.DistributedDataParallelKwargs": "find_unused_parameters",
    "lightning.pytorch.strategies.DDPStrategy": "find_unused_parameters",
    "transformers.TrainingArguments": "ddp_find_unused_parameters",
    "transformers.Seq2SeqTrainingArguments": "ddp_find_unused_parameters",
}
"""Calls that set up DDP, and the argument by which each makes it search for parameters without a gradient."""
