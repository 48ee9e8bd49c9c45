"""Properties of a whole file that affect its individual lines, decided by the names in its code, not by its text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import backend_flags, timing
from torchperf_lint.model.handles import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model.handles import Code

_NAMES_ACCELERATOR = re.compile(r"^(?!.*(?:cpu|host)).*(?:device|\bdev\b|cuda|gpu|rank)", re.IGNORECASE)
"""An expression for a device that is not the host, by its words."""


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


def has_loose_streams(code: Code) -> bool:
    """Whether a stream of the code may read what is queued elsewhere, or be read, without a wait of either stream.

    None may where each block on a stream stands between two waits, as before a CUDA graph is recorded:
    `s.wait_stream(torch.cuda.current_stream())`, `with torch.cuda.stream(s): ...`,
    `torch.cuda.current_stream().wait_stream(s)`.
    """
    if not has_streams(code):
        return False
    if code.calls("ExternalStream", "set_stream", "StreamContext") or code.speaks_of("wait_event", "record_stream"):
        return True
    made, used, tied = _streams_made(code), set[int](), set[int]()
    if made is None:
        return True
    for node in code.nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in ("stream", "wait_stream"):
            used.add(id(node))
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                tied.update(_tied(block))
    told = [node for node in code.nodes if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in made]
    loads = [node for node in told if isinstance(node.ctx, ast.Load)]
    return used != tied or len(loads) != len(tied)


def _streams_made(code: Code) -> set[str] | None:
    """The names and paths that streams are made for; None if one is made for something else."""
    made, calls = set[str](), 0
    for node in code.nodes:
        if isinstance(node, ast.Call) and _makes_stream(node):
            calls += 1
        elif isinstance(node, ast.Assign) and _makes_stream(node.value):
            path = dotted(node.targets[0]) if len(node.targets) == 1 else None
            if path is None:
                return None
            made.add(path)
            calls -= 1
    return None if calls else made


def _makes_stream(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "Stream"


def _tied(block: list[ast.stmt]) -> Iterator[int]:
    """The calls of blocks on streams that wait for the current stream, which waits for them."""
    for before, statement, behind in zip(block, block[1:], block[2:], strict=False):
        if not isinstance(statement, ast.With) or len(statement.items) != 1:
            continue
        entered = statement.items[0].context_expr
        on = _waited_for(entered, "stream")
        first, last = (each.value if isinstance(each, ast.Expr) else None for each in (before, behind))
        if on is None or not isinstance(first, ast.Call) or not isinstance(last, ast.Call):
            continue
        waits = _owner(first) == on and _is_current(_given(first, "wait_stream"))
        if waits and _is_current(_owner_of(last)) and _waited_for(last, "wait_stream") == on:
            yield from map(id, (entered, first, last))


def _given(call: ast.expr, name: str) -> ast.expr | None:
    """The only argument of a call of that name."""
    is_call = isinstance(call, ast.Call) and last_name(call.func) == name and not call.keywords and len(call.args) == 1
    return call.args[0] if is_call and isinstance(call, ast.Call) else None


def _waited_for(call: ast.expr, name: str) -> str | None:
    given = _given(call, name)
    return None if given is None else dotted(given)


def _owner_of(call: ast.Call) -> ast.expr | None:
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _owner(call: ast.Call) -> str | None:
    owner = _owner_of(call)
    return None if owner is None else dotted(owner)


def _is_current(node: ast.expr | None) -> bool:
    """`torch.cuda.current_stream()`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "current_stream" and not (node.args or node.keywords)


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
    if ast.unparse(call.func) == "super().to" and "non_blocking" not in named and None in named:
        return False  # a method hands on what its callers give, as a module's own `to` does
    waits = "non_blocking" not in named and None not in named and len(call.args) <= most
    if waits or call.func.attr == "copy_":
        return not waits
    device = named.get("device", call.args[0] if call.args else None)
    return device is None or _NAMES_ACCELERATOR.search(ast.unparse(device)) is None


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
