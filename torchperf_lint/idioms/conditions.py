"""Conditions around a site: those that the program's user controls, and those that skip it in some steps."""

from __future__ import annotations

import ast
import re
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.handles import asks_about_accelerator, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo, Place

_EVERY_RUN = re.compile(r"rank|main_process|master|global_zero|sync_gradients|^__name__$", re.IGNORECASE)
_CHOICE = re.compile(r"empty|clear|flush|free|offload|low_|save|memory|debug|tight|limit", re.IGNORECASE)
_VERSION = re.compile(r"version|hasattr|getattr|has_|parse\(|TORCH_", re.IGNORECASE)
_RANK = re.compile(r"rank|main_process|is_master|is_main|global_zero|is_primary", re.IGNORECASE)
_EPOCH = re.compile(r"epoch|fold|trial", re.IGNORECASE)
_TRAINS = ("training_step", "train_step", "on_train_batch_end", "on_train_batch_start", "on_step_end", "compute_loss")
_RUNS_ITS_BODY = (ast.With, ast.AsyncWith, ast.Try)
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def is_for_every_run(test: ast.expr) -> bool:
    """Whether a test checks only the accelerator, the rank or the end of accumulation, not a user's option."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.BoolOp):
        return all(map(is_for_every_run, test.values))
    if any(isinstance(node, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)) for node in subtree(test)):
        return False
    names = [last_name(node) or "" for node in subtree(test) if isinstance(node, (ast.Name, ast.Attribute))]
    if any(map(_CHOICE.search, names)):
        return False
    return asks_about_accelerator(test) or any(map(_EVERY_RUN.search, names))


def in_any_case(model: Model, site: Site) -> bool:
    """Whether the hot site runs without a condition that the program's user controls: no flag, no memory limit."""
    return model.is_hot_under(model.statement_of(site.node), is_for_every_run)


def in_every_run(model: Model, site: Site) -> bool:
    """Whether the site runs in every run of the program, judged by its file and the calls of its function."""
    function = model.function_of(site)
    return _in_every_run(model, model.place(site.node), frozenset({function}))


def _in_every_run(model: Model, place: Place, seen: frozenset[FunctionInfo]) -> bool:
    function = place.function
    if any(isinstance(each.parent, ast.Try) and each.field == "handlers" for each in place.outwards()):
        return False
    if not all(map(is_for_every_run, place.tests())):
        return False
    callers = [each for each in model.possible_callers(function) if each.function not in seen]
    if not callers or len(seen) > bounds.MOST_CALLS_TO_CONDITION:
        return not _CHOICE.search(function.name)
    return any(_in_every_run(model, each.place, seen | {each.function}) for each in callers)


def has_fallback(model: Model, site: Site) -> bool:
    """Whether a `try` or a version check around the site chooses between it and an alternative."""
    place = model.place(site.node)
    if any(isinstance(around, ast.Try) and around.handlers for around in place.around()):
        return True
    return any(_VERSION.search(ast.unparse(test)) for test in place.tests())


def in_every_training_step(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that each training step runs the site; None if any condition but a rank check may prevent it."""
    start = model.place(site.node)
    pending: deque[tuple[Model, Place, tuple[Because, ...]]] = deque([(model, start, ())])
    seen = {start.function}
    while pending and len(seen) <= bounds.MOST_CALLERS_OF_HELPER:
        there, place, way = pending.popleft()
        found = _climbed(there, place)
        if found is None:
            continue
        if found:
            return (*way, *found)
        function = place.function
        contract = there.contract(function)
        if contract is not None and contract.hot:
            row = getattr(function.node, "lineno", 1)
            if function.name in _TRAINS:
                return (*way, Because(contract.row or row, contract.says, contract.path or function.path))
            continue
        for record in there.callers(function):
            if record.function not in seen:
                seen.add(record.function)
                says = f"`{function.name}` is called here in every step"
                step = Because(record.call.lineno, says, record.function.path)
                pending.append((there.home(record.function), record.place, (*way, step)))
    return None


def _climbed(model: Model, start: Place) -> tuple[Because, ...] | None:
    """The training loop around the statement; () if only the function is around it; None if a condition is."""
    for place in start.outwards():
        if any(map(_may_leave, place.before)):
            return None
        parent = place.parent
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            info = model.loop_info(parent)
            if place.field != "body" or info.kind is LoopKind.EPOCH:
                return None
            if info.kind is LoopKind.BATCH:
                header = parent.test if isinstance(parent, ast.While) else ast.Tuple([parent.target, parent.iter])
                counts_epochs = _EPOCH.search(ast.unparse(header)) is not None
                says = Because(parent.lineno, info.says, model.path)
                return (says,) if info.trains and not counts_epochs else None
        elif isinstance(parent, ast.If):
            if place.field != "body" or not _asks_for_rank_alone(parent.test):
                return None
        elif parent is not None and not (place.field == "body" and isinstance(parent, _RUNS_ITS_BODY)):
            return None
    return ()


def _asks_for_rank_alone(test: ast.expr) -> bool:
    """`rank == 0`; `is_main and not step % 1000` is another condition, too: each part has to ask for it."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(map(_asks_for_rank_alone, test.values))
    return _RANK.search(ast.unparse(test)) is not None


def _may_leave(statement: ast.stmt) -> bool:
    """Whether an `if` ends the pass, or the function, before the statements after it."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, _LEAVES) for part in (*statement.body, *statement.orelse) for node in subtree(part)
    )


def chosen_for_device(model: Model, site: Site) -> bool:
    """Whether the site is in a branch of an `if` that tests whether, or which, accelerator is used."""
    around = model.place(site.node).around()
    return any(isinstance(each, ast.If) and asks_about_accelerator(each.test) for each in around)


def under_a_value(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether a test of what the device holds guards the site: `if x.max() > 1: print("too large", x.max())`."""
    place = model.place(site.node)
    asked = (node for test in place.tests(hot_path.loop) for node in subtree(test))
    values = (model.value_in(place.function, each) for node in asked for each in _compared(node))
    return any(value.is_tensor and value.device.on_accelerator for value in values)


def _compared(node: ast.AST) -> list[ast.expr]:
    """What a test compares, or asks whether any of it or all of it is true."""
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
        return [node.left, *node.comparators]
    is_asked = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("any", "all")
    return [node] if is_asked else []  # type: ignore[list-item]
