"""Calls of libraries beside which a wait for the device weighs nothing, because they take seconds."""

from __future__ import annotations

SLOW_FUNCTIONS = frozenset(
    {
        "torch.save",
        "torch.distributed.checkpoint.save",
        "safetensors.torch.save_file",
        "safetensors.torch.save_model",
        "matplotlib.pyplot.savefig",
        "os.system",
        *(f"subprocess.{name}" for name in ("call", "check_call", "check_output", "run")),
        *(f"requests.{name}" for name in ("get", "post", "put")),
    }
)
"""They write a checkpoint or a figure, run another program, or wait for a network."""

SLOW_NAMES = frozenset(name.rpartition(".")[2] for name in SLOW_FUNCTIONS)

SAVERS = frozenset({"push_to_hub", "save_checkpoint", "save_pretrained", "save_state", "savefig"})
"""Methods that write a checkpoint or a figure, by names that libraries use for nothing else."""

GENERATORS = frozenset({"generate"})
"""Methods of a module that run it once for each token of their result."""

COUNTS_OF_PASSES = frozenset({"max_new_tokens", "num_inference_steps"})
"""Arguments that say how often a generating model or a diffusion pipeline runs in one call."""
