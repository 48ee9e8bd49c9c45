"""Functions of the project that run a model on a batch that a loop cuts: `self.predict(x[i : i + batch_size])`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.frequency.inference_loops import named_model
from torchperf_lint.model.frequency.loop_bodies import made_of_item, names_given
from torchperf_lint.model.syntax.index import last_name, names_in

if TYPE_CHECKING:
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
    """Whether the function runs a model on what it is given, or calls one that does, in each of its runs.

    Loops may go over batches themselves.
    """
    home = inference.home(function.index)
    given = _made_of_parameters(function)
    direct = [each for each in function.calls_made if _is_always_run(each) and not given.isdisjoint(names_given(each))]
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
    return value.kind is Kind.MODULE and is_named and not value.is_layer and value.device is not Device.CPU


def _is_always_run(record: CallRecord) -> bool:
    """Whether no loop repeats the call, and no test is asked before it."""
    around = record.place.around()
    is_plain = all(isinstance(each, (ast.With, ast.AsyncWith, ast.Try)) for each in around)
    return is_plain and record.statement not in record.function.index.comprehensions


def _made_of_parameters(function: FunctionInfo) -> set[str]:
    """The parameters but `self`, and the names that assignments make of them."""
    found = set(function.parameter_names) - {function.self_name or ""}
    for statement in function.statements:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if not found.isdisjoint(names_in(statement.value)):
                found.update(name for target in targets for name in names_in(target))
    return found
