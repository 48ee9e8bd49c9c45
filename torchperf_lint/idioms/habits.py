"""Properties of a whole file that affect its individual lines, decided by the names in its code, not by its text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import backend_flags, timing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.model.handles import Code

_NAMES_ACCELERATOR = re.compile(r"^(?!.*(?:cpu|host)).*(?:device|\bdev\b|cuda|gpu|rank)", re.IGNORECASE)
"""An expression for a device that is not the host, by its words."""

_FACTORIES = (
    "empty",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "tensor",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_empty",
    "new_zeros",
    "arange",
    "randint",
    "empty_strided",
)
"""Functions that can make pinned memory; `_sent` itself makes it anew for each call, by `empty_like`."""


def replays_graphs(code: Code) -> bool:
    """Whether the code records CUDA graphs, or has a compiler do so: each replay writes to the same memory."""
    return code.speaks_of(*backend_flags.GRAPH_STEMS) or code.names("torch.cuda.graph")


def orders_streams(code: Code) -> bool:
    """Whether the code uses its own streams, or works outside torch: a wait there may enforce an order."""
    return code.speaks_of(*timing.ORDER_STEMS) or has_streams(code)


def has_streams(code: Code) -> bool:
    """Whether the code works on streams of its own: what is queued on one is not done for another."""
    own = code.names("cuda.stream") or code.calls("Stream", "ExternalStream")
    return own or code.speaks_of("wait_stream", "wait_event", "record_stream")


def has_events(code: Code) -> bool:
    """Whether the code asks events of the device, which must have happened by then."""
    return code.names("cuda.Event") or code.calls("Event", ".elapsed_time")


def fetches_without_waiting(code: Code) -> bool:
    """Whether the code may copy to the host without a wait: a later wait lets it read the copy."""
    return any(map(_may_fetch, code.all_calls_of("to", "copy_")))


def _may_fetch(call: ast.Call) -> bool:
    """A copy that may not wait, and is not seen to go to an accelerator."""
    if not isinstance(call.func, ast.Attribute):
        return False
    named = {each.arg: each.value for each in call.keywords}
    most = 1 if call.func.attr == "copy_" else 2
    waits = "non_blocking" not in named and None not in named and len(call.args) <= most
    if waits or call.func.attr == "copy_":
        return not waits
    device = named.get("device", call.args[0] if call.args else None)
    return device is None or _NAMES_ACCELERATOR.search(ast.unparse(device)) is None


def reuses_pinned_memory(code: Code) -> bool:
    """Whether the code makes pinned memory itself, and may write to it again behind a wait for what reads it."""
    if code.calls(".pin_memory"):
        return True
    given = (each.arg for call in code.all_calls_of(*_FACTORIES) for each in call.keywords)
    return any(name in ("pin_memory", None) for name in given)


def starts_processes(code: Code) -> bool:
    """Whether the code may start processes of its own, which need a parent that has not asked for CUDA."""
    return code.names("multiprocessing", "torch.multiprocessing", "os.fork")


def measures_time(code: Code) -> bool:
    """Whether the code reads a clock."""
    is_clock = code.names("time.time") or code.calls("monotonic") or code.calls_ending_in("Timer")
    return is_clock or code.speaks_of(*timing.CLOCK_STEMS)


def chooses_precision(code: Code) -> bool:
    """Whether the code chooses a precision: it casts, scales, or names a dtype other than float32."""
    return code.speaks_of(*backend_flags.MIXED_STEMS) or code.calls(".half", ".double")


def trains(*files: Code) -> bool:
    """Whether one of the files calls backward, or passes its step, loaders or loop to a framework."""
    return any(map(_trains, files))


def _trains(code: Code) -> bool:
    functions = code.functions
    hooks = any(function.name.endswith("_dataloader") and function.cls is not None for function in functions)
    return hooks or code.calls(".backward", ".fit") or code.names("training_step", "accelerator.accumulate")


def steps_an_optimizer(code: Code) -> bool:
    """Whether the code calls backward, steps something named like an optimizer, or passes both to a trainer."""
    return code.calls(".backward") or code.names("training_step", "optimizer.step") or code.calls_ending_in("Trainer")


def names_sparse(files: Iterable[Code]) -> bool:
    """Whether one of the files names sparse tensors."""
    return any(code.speaks_of("sparse") for code in files)


def tells_tuples(files: Iterable[Code]) -> bool:
    """Whether one of the files distinguishes tuples from other sequences: `isinstance(x, tuple)`, `(list, tuple)`."""
    return any(_tells_tuples(code) for code in files)


def _tells_tuples(code: Code) -> bool:
    for node in code.nodes:
        among = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else ()
        if any(isinstance(each, ast.Name) and each.id == "tuple" for each in among):
            return True
    return False
