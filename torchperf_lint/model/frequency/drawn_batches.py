"""Loops that draw a batch in every pass and train on it: `batch = buffer.sample_batch(size)`, `agent.update(batch)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.frequency.loop_bodies import call_text, counts, names_given, step_loop
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Index

_DRAWS = "sample"


def drawn_from(inference: ValueQuestions, loop: Loop, function: FunctionInfo) -> str | None:
    """The text of the call that draws a batch in every pass, for a method of the program to train on."""
    in_pass = [each for each in function.calls_made if step_loop(each) is loop and not list(each.place.tests(loop))]
    drawing = [each for each in in_pass if _draws(each)]
    if not drawing or not _counts(inference, loop, function):
        return None
    training = [each for each in in_pass if conventions.TRAINING_METHODS.search(last_name(each.call.func) or "")]
    for record in drawing:
        drawn = _bound_to(record)
        on_it = [each for each in training if drawn & names_given(each)]
        if any(inference.frame_value(function, each.call.func).function is not None for each in on_it):
            return call_text(record)
    return None


def loops_drawing(index: Index) -> set[ast.stmt]:
    """The loops of a file that may be such, by names."""
    names = [name for name in index.calls if name == _DRAWS or conventions.DRAWS_BATCH.search(name)]
    drawing = [record for name in names for record in index.calls[name] if _draws(record)]
    return {loop for loop in map(step_loop, drawing) if loop is not None}


def _draws(record: CallRecord) -> bool:
    """`sample_batch(size)` of anything, `sample(size)` of a buffer or memory."""
    func = record.call.func
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr == _DRAWS:
        return conventions.REPLAY_BUFFERS.search((last_name(func.value) or "").lower()) is not None
    return conventions.DRAWS_BATCH.search(func.attr) is not None


def _counts(inference: ValueQuestions, loop: Loop, function: FunctionInfo) -> bool:
    return isinstance(loop, ast.While) or counts(loop) or inference.frame_value(function, loop.iter).ref == "range"


def _bound_to(record: CallRecord) -> set[str]:
    statement = record.statement
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is not record.call:
        return set()
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return {node.id for target in targets for node in subtree(target) if isinstance(node, ast.Name)}
