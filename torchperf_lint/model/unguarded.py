"""Code that every training step certainly runs: no condition stands in its way but that of a process's rank."""

from __future__ import annotations

import ast
import re
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import frameworks
from torchperf_lint.model.loops import LoopKind

if TYPE_CHECKING:
    from torchperf_lint.model.index import FunctionInfo
    from torchperf_lint.model.unit import Unit

MOST_CALLERS = 12
"""How many functions are looked at for one that a step calls."""

_RANK = re.compile(r"rank|main_process|is_master|is_main|global_zero|is_primary", re.IGNORECASE)
_EPOCH = re.compile(r"epoch|fold|trial", re.IGNORECASE)
_TRAINS = ("training_step", "train_step", "on_train_batch_end", "on_train_batch_start", "on_step_end", "compute_loss")
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def in_every_training_step(unit: Unit, statement: ast.stmt) -> tuple[Because, ...] | None:
    """What shows that each step of training runs the statement; None if a condition may keep it from that."""
    start = unit.index.places[statement].function
    pending: deque[tuple[Unit, ast.stmt, FunctionInfo, tuple[Because, ...]]] = deque([(unit, statement, start, ())])
    seen = {start}
    while pending and len(seen) <= MOST_CALLERS:
        there, place, function, way = pending.popleft()
        found = _climbed(there, place, function)
        if found is None:
            continue
        if found:
            return (*way, *found)
        contract = frameworks.contract_of(there.world(), function)
        if contract is not None and contract.hot:
            row = getattr(function.node, "lineno", 1)
            if function.name in _TRAINS:
                return (*way, Because(contract.row or row, contract.says, contract.path or function.index.path))
            continue
        for record in there.world().callers(function):
            if record.function not in seen:
                seen.add(record.function)
                program, index = there.program, record.function.index
                home = there if program is None or index is there.index else program.unit_of(index)
                step = Because(record.call.lineno, f"`{function.name}` is called here in every step", index.path)
                pending.append((home, record.statement, record.function, (*way, step)))
    return None


def _climbed(unit: Unit, statement: ast.stmt, function: FunctionInfo) -> tuple[Because, ...] | None:
    """The training loop around the statement; () where only the function itself is; None where a condition is."""
    current = statement
    while True:
        place = unit.index.places[current]
        if any(_may_leave(earlier) for earlier in place.block[: place.position]):
            return None
        parent = place.parent
        if parent is None:
            return ()
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            info = unit.loops.classify(parent, function)
            if place.field != "body" or info.kind is LoopKind.EPOCH:
                return None
            if info.kind is LoopKind.BATCH:
                header = parent.test if isinstance(parent, ast.While) else ast.Tuple([parent.target, parent.iter])
                counts_epochs = _EPOCH.search(ast.unparse(header)) is not None
                says = Because(parent.lineno, info.says, unit.index.path)
                return (says,) if info.trains and not counts_epochs else None
        elif isinstance(parent, ast.If):
            if place.field != "body" or not _RANK.search(ast.unparse(parent.test)):
                return None
        elif place.field != "body" or not isinstance(parent, (ast.With, ast.AsyncWith, ast.Try)):
            return None
        current = parent


def _may_leave(statement: ast.stmt) -> bool:
    """Whether an `if` ends the pass, or the function, before what stands behind it."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, _LEAVES) for part in (*statement.body, *statement.orelse) for node in ast.walk(part)
    )
