"""Results of a model of unknown class: they live where it is trained, if what it returns is sent backward."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Unproven
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, hierarchy
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container
from torchperf_lint.model.syntax.backward import calls_sent_backward, names_sent_backward, terms_sent_backward
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.returned_losses import is_sent_backward, places_returned
from torchperf_lint.model.values.tensors import is_of_host, is_python_data

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.domain.interfaces import ExpressionValues, ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo
    from torchperf_lint.model.syntax.returned_losses import Place

_SENT = "`.backward()` is called on what `{}` returns here, in a program for an accelerator"
_RESULTS = (Kind.UNKNOWN, Kind.PYTREE, Kind.TENSOR)
_LEAVE = frozenset({"cpu", "to", "item", "numpy", "tolist"})
"""Methods whose result may not be where the tensor is."""
_OWNERS = (Kind.UNKNOWN, Kind.MODULE, Kind.INSTANCE)


def placed_by_training(
    evaluator: ExpressionValues, node: ast.Call, callee: Value, given: list[Value], result: Value
) -> Value:
    """The result of a call; on the accelerator if the same function or class sends backward what the callee returns.

    A model that is `given` a tensor of the host runs there, and so may one that is given a batch as it was loaded.
    """
    if result.kind not in _RESULTS or result.device is not Device.UNKNOWN or result.among:
        return result
    if evaluator.inference.cpu_only or not _is_open(callee):
        return result
    if any(is_of_host(each) or (each.origin is not None and each.device is Device.UNKNOWN) for each in given):
        return result
    if given and all(is_python_data(each) or each.kind is Kind.NUMPY for each in given):
        return result
    path = dotted(node.func)
    row = None if path is None else _row_sent_backward(evaluator.frame.function, path)
    if row is None:
        return result
    says = _SENT.format(path)
    kind = Kind.TENSOR if result.kind is Kind.TENSOR else Kind.PYTREE
    there = result._replace(kind=kind, device=Device.LIKELY, because=(Unproven(row, says),))
    parts = _parts_sent_backward(evaluator.frame.function, node)
    if True not in parts:
        return there
    return container(None, [(place, there if sent else UNKNOWN) for place, sent in enumerate(parts)], "tuple")


def returned_loss(inference: ValueQuestions, frame: Frame, name: str | None, source: ast.expr, value: Value) -> Value:
    """The value of a name that a function binds once and returns, where it is trained if a caller sends it backward."""
    is_computed = isinstance(source, (ast.BinOp, ast.UnaryOp, ast.Call))
    is_open = value.kind in (Kind.TENSOR, Kind.PYTREE) or (value.kind is Kind.UNKNOWN and is_computed)
    if not is_open or value.device is not Device.UNKNOWN or value.among or frame.is_call or inference.cpu_only:
        return value
    if any(isinstance(each, ast.Attribute) and each.attr in _LEAVE for each in _made_of(source)):
        return value
    function, places = frame.function, places_returned(frame.function, name or "")
    if function.bound_names.count(name or "") != 1:  # another binding may be a number, or of the host
        return value
    sent = inference.one_call_up(lambda: _sent_by_callers(inference, function, places)) if places else None
    if not sent:
        return value
    return Value(Kind.TENSOR, Device.LIKELY, True, dtype=value.dtype or "float", because=sent)


def _made_of(source: ast.expr) -> Iterator[ast.expr]:
    """What lies where the expression does, if each of its methods leaves a tensor there."""
    pending = [source]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.BinOp):
            pending += [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            pending.append(node.operand)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            pending.append(node.value)
        elif isinstance(node, ast.Call):
            pending.append(node.func)
            if (dotted(node.func) or "").partition(".")[0] in ("torch", "F", "sum"):
                pending += node.args


def _sent_by_callers(
    inference: ValueQuestions, function: FunctionInfo, places: frozenset[Place]
) -> tuple[Because, ...]:
    possible = calling.possible_callers(inference, function)
    if len(possible) > bounds.MOST_CALLERS or not any(_sends(each, places) for each in possible):
        return ()
    shown = inference.callers(function)
    for record in shown or calling.likely_callers(inference, function):
        if _sends(record, places) and not inference.home(record.function.index).cpu_only:
            path = record.function.index.path
            step = Because(record.call.lineno, _SENT.format(dotted(record.call.func) or function.name), path)
            if shown:
                return (step,)
            return (step, Unproven(record.call.lineno, hierarchy.says(inference, record, function), path))
    return ()


def _sends(record: CallRecord, places: frozenset[Place]) -> bool:
    return any(is_sent_backward(record, place) for place in places)


def _parts_sent_backward(function: FunctionInfo, call: ast.Call) -> list[bool]:
    """Of the names that a call is unpacked into, which are sent backward: the others may be numbers."""
    around = function.parents.get(call)
    if not isinstance(around, ast.Assign) or len(around.targets) != 1 or not isinstance(around.targets[0], ast.Tuple):
        return []
    sent = names_sent_backward(function) | terms_sent_backward(function)
    targets = around.targets[0].elts
    return [] if any(isinstance(each, ast.Starred) for each in targets) else [dotted(each) in sent for each in targets]


def _is_open(callee: Value) -> bool:
    """Whether what is called is an object of which no code is known, or an attribute of one."""
    if callee.kind is Kind.METHOD:
        return callee.function is None and callee.element is not None and callee.element.kind in _OWNERS
    # An attribute that is None as far as is known has been given a model where it is called.
    return callee.kind in (Kind.UNKNOWN, Kind.NONE, Kind.MODULE) and callee.function is None


def _row_sent_backward(function: FunctionInfo, path: str) -> int | None:
    """Where a call of the same name or attribute gives what is sent backward; not in a file's top level."""
    if function.is_module:
        return None
    own = calls_sent_backward(function).get(path)
    cls, name = function.cls, function.self_name
    if own is not None or cls is None or name is None or not path.startswith(f"{name}."):
        return own
    rows = cls.sum_up("sent backward", lambda: _rows_sent_backward(cls))
    found = rows.get(path.removeprefix(f"{name}."), {})
    return next((row for method, row in found.items() if method is not function), None)


def _rows_sent_backward(cls: ClassInfo) -> dict[str, dict[FunctionInfo, int]]:
    """The rows where its methods call attributes of `self` for what they send backward."""
    found: dict[str, dict[FunctionInfo, int]] = {}
    for each in cls.methods.values():
        for path, row in calls_sent_backward(each).items() if each.self_name is not None else ():
            if path.startswith(f"{each.self_name}."):
                found.setdefault(path.removeprefix(f"{each.self_name}."), {})[each] = row
    return found
