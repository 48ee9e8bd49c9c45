"""Conditions around a site: those that the program's user controls, and those that skip it in some steps."""

from __future__ import annotations

import ast
import re
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.values.narrowing import asks_about_accelerator
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.interfaces import FileQuestions, FrequencyQuestions, ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo, Index

_EVERY_RUN = re.compile(r"rank|main_process|master|global_zero|sync_gradients|^__name__$", re.IGNORECASE)
_CHOICE = re.compile(r"empty|clear|flush|free|offload|low_|save|memory|debug|tight|limit", re.IGNORECASE)
_VERSION = re.compile(r"version|hasattr|getattr|has_|parse\(|TORCH_", re.IGNORECASE)
_RANK = re.compile(r"rank|main_process|is_master|is_main|global_zero|is_primary", re.IGNORECASE)
_EPOCH = re.compile(r"epoch|fold|trial", re.IGNORECASE)
_TRAINS = ("training_step", "train_step", "on_train_batch_end", "on_train_batch_start", "on_step_end", "compute_loss")
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)


def tests_around(statement: ast.stmt, index: Index, loop: ast.stmt | None) -> Iterator[ast.expr]:
    """The tests of the branches around a statement, within this loop or else within its function."""
    current = statement
    while (parent := index.places[current].parent) is not loop and parent is not None:
        if isinstance(parent, ast.If):
            yield parent.test
        elif isinstance(parent, ast.Match):
            yield parent.subject
        current = parent


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
    function = model.function_of(site)
    return _reached(model.frequency, model.statement_of(site.node), function, frozenset({function}))


def _reached(
    hot_path: FrequencyQuestions, statement: ast.stmt, function: FunctionInfo, seen: frozenset[FunctionInfo]
) -> bool:
    within = hot_path.within(statement)
    if within is None or not all(map(is_for_every_run, tests_around(statement, function.index, within.loop))):
        return False
    if within.loop is not None or hot_path.own_hot_path(function) is not None:
        return True
    if len(seen) > bounds.MOST_CALLS_TO_CONDITION:
        return False
    return any(
        record.function not in seen
        and (says or calling.reaches(hot_path.inference, record, function))
        and _reached(hot_path.home(record.function), record.statement, record.function, seen | {record.function})
        for record, says in hot_path.calls_of(function)
    )


def in_every_run(model: Model, site: Site) -> bool:
    """Whether the site runs in every run of the program, judged by its file and the calls of its function."""
    function = model.function_of(site)
    return _in_every_run(model.inference, model.statement_of(site.node), function, frozenset({function}))


def _in_every_run(
    inference: ValueQuestions, statement: ast.stmt, function: FunctionInfo, seen: frozenset[FunctionInfo]
) -> bool:
    places = function.index.places
    current: ast.stmt | None = statement
    while current is not None:
        parent = places[current].parent
        if isinstance(parent, ast.Try) and places[current].field == "handlers":
            return False
        current = parent
    if not all(map(is_for_every_run, tests_around(statement, function.index, None))):
        return False
    callers = [each for each in calling.possible_callers(inference, function) if each.function not in seen]
    if not callers or len(seen) > bounds.MOST_CALLS_TO_CONDITION:
        return not _CHOICE.search(function.name)
    return any(_in_every_run(inference, each.statement, each.function, seen | {each.function}) for each in callers)


def has_fallback(model: Model, site: Site) -> bool:
    """Whether a `try` or a version check around the site chooses between it and an alternative."""
    statement = model.statement_of(site.node)
    current: ast.stmt | None = statement
    while current is not None:
        if isinstance(current, ast.Try) and current is not statement and current.handlers:
            return True
        current = model.index.places[current].parent
    return any(map(_VERSION.search, map(ast.unparse, tests_around(statement, model.index, None))))


def in_every_training_step(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that each training step runs the site; None if any condition but a rank check may prevent it."""
    analyzed, statement = model.analyzed, model.statement_of(site.node)
    start = analyzed.index.places[statement].function
    pending: deque[tuple[FileQuestions, ast.stmt, FunctionInfo, tuple[Because, ...]]] = deque(
        [(analyzed, statement, start, ())]
    )
    seen = {start}
    while pending and len(seen) <= bounds.MOST_CALLERS_OF_HELPER:
        there, place, function, way = pending.popleft()
        found = _climbed(there, place, function)
        if found is None:
            continue
        if found:
            return (*way, *found)
        contract = there.inference().contract(function)
        if contract is not None and contract.hot:
            row = getattr(function.node, "lineno", 1)
            if function.name in _TRAINS:
                return (*way, Because(contract.row or row, contract.says, contract.path or function.index.path))
            continue
        for record in there.inference().callers(function):
            if record.function not in seen:
                seen.add(record.function)
                program, index = there.program, record.function.index
                home = there if program is None or index is there.index else program.file_of(index)
                step = Because(record.call.lineno, f"`{function.name}` is called here in every step", index.path)
                pending.append((home, record.statement, record.function, (*way, step)))
    return None


def _climbed(analyzed: FileQuestions, statement: ast.stmt, function: FunctionInfo) -> tuple[Because, ...] | None:
    """The training loop around the statement; () if only the function is around it; None if a condition is."""
    current = statement
    while True:
        place = analyzed.index.places[current]
        if any(_may_leave(earlier) for earlier in place.block[: place.position]):
            return None
        parent = place.parent
        if parent is None:
            return ()
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            info = analyzed.loops.classify(parent, function)
            if place.field != "body" or info.kind is LoopKind.EPOCH:
                return None
            if info.kind is LoopKind.BATCH:
                header = parent.test if isinstance(parent, ast.While) else ast.Tuple([parent.target, parent.iter])
                counts_epochs = _EPOCH.search(ast.unparse(header)) is not None
                says = Because(parent.lineno, info.says, analyzed.index.path)
                return (says,) if info.trains and not counts_epochs else None
        elif isinstance(parent, ast.If):
            if place.field != "body" or not _RANK.search(ast.unparse(parent.test)):
                return None
        elif place.field != "body" or not isinstance(parent, (ast.With, ast.AsyncWith, ast.Try)):
            return None
        current = parent


def _may_leave(statement: ast.stmt) -> bool:
    """Whether an `if` ends the pass, or the function, before the statements after it."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, _LEAVES) for part in (*statement.body, *statement.orelse) for node in subtree(part)
    )


def chosen_for_device(model: Model, site: Site) -> bool:
    """Whether the site is in a branch of an `if` that tests whether, or which, accelerator is used."""
    current: ast.stmt | None = model.statement_of(site.node)
    while current is not None:
        current = model.index.places[current].parent
        if isinstance(current, ast.If) and asks_about_accelerator(current.test):
            return True
    return False
