"""Functions of the project that run a model on a batch that a loop cuts: `self.predict(x[i : i + batch_size])`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.frequency.inference_loops import named_model
from torchperf_lint.model.frequency.loop_bodies import made_of_item, names_given
from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    import ast

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


def runs_model(
    inference: ValueQuestions, record: CallRecord, loop: ast.For | ast.AsyncFor, function: FunctionInfo
) -> bool:
    """Whether a call directly in the loop hands an item, or what is made of it, on to a function that runs a model."""
    if record.place.loops()[:1] != [loop] or not made_of_item(loop) & names_given(record):
        return False
    return any(_runs_once(inference, each, 1) for each in _called(inference, record, function))


def _called(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> list[FunctionInfo]:
    """The functions that a call may mean: for an abstract method, those that override it."""
    meant = inference.frame_value(function, record.call.func).function
    if meant is None or meant.name == "__init__" or meant.is_generator:
        return []
    return list(inference.overriding(meant)) if meant.is_abstract else [meant]


def _runs_once(inference: ValueQuestions, function: FunctionInfo, calls: int) -> bool:
    """Whether the function runs a model, or calls one that does, in no loop, which may go over batches itself."""
    home = inference.home(function.index)
    repeated = function.index.comprehensions
    direct = [each for each in function.calls_made if not each.place.loops() and each.statement not in repeated]
    if any(_is_model(home, record.call, function) for record in direct):
        return True
    return calls < bounds.MOST_CALLS_TO_MODEL and any(
        _runs_once(home, each, calls + 1)
        for record in direct
        for each in _called(home, record, function)
        if each is not function
    )


def _is_model(inference: ValueQuestions, call: ast.Call, function: FunctionInfo) -> bool:
    """Whether the call runs a whole module, not a layer."""
    func = named_model(call) or call.func
    value = inference.frame_value(function, func)
    is_named = value.cls is not None or last_name(func) in conventions.MODEL_NAMES
    return value.kind is Kind.MODULE and is_named and not value.is_layer
