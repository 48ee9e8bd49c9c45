"""Objects whose own `to(device)` moves all that they hold: it goes over `self.__dict__`, `vars(self)` or the fields."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Moved
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, with_fields
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.values import parameters
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOVERS = frozenset({"to", "cuda"})
_NAMES = _MOVERS | {"to_device", "move_to", "send_to"}
_OWN_PARTS = frozenset({"vars", "fields", "asdict"})


def result(
    inference: ValueQuestions, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """The object on the device, after a call of such a method; UNKNOWN for any other one.

    `arguments` are those of the call, with the object before them.
    """
    moved = arguments[0] if arguments else UNKNOWN
    if moved.kind is not Kind.INSTANCE or moved.cls is None:
        return UNKNOWN
    move = move_of_parts(function)
    if move is None:
        return UNKNOWN
    home = inference.home(function.index)
    values = home.in_call(function, parameters.bind(inference, function, arguments, keywords))
    place = UNKNOWN if values is None else values.get(move, UNKNOWN)
    if not place.device.on_accelerator:
        return UNKNOWN
    path = None if function.index is inference.index else function.index.path
    step = Moved(move.lineno, f"`{function.name}` moves what the object holds to the device", path)
    if moved.items is not None:
        there = {
            str(name): value._replace(device=place.device, because=(step,)) if value.holds_tensors else value
            for name, value in moved.items
        }
        moved = with_fields(moved, there)
    return moved._replace(device=place.device, because=(step,))


def changes_itself(function: FunctionInfo) -> bool:
    """Whether such a method sets the object's own attributes, and not those of a copy."""
    calls = [record.call for record in function.calls_made if last_name(record.call.func) == "setattr"]
    entries = [
        node for node in function.nodes if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
    ]
    stores = [node for node in entries if last_name(node.value) == "__dict__"]
    owners = [dotted(call.args[0]) for call in calls if call.args]
    owners += [(dotted(store.value) or "").removesuffix(".__dict__") for store in stores]
    return bool(owners) and all(each == function.self_name for each in owners)


def move_of_parts(function: FunctionInfo) -> ast.Call | None:
    """The call by which such a method moves a part of its object."""
    if function.cls is None or function.name not in _NAMES or function.is_generator:
        return None
    return function.note(("moves its parts", function), lambda: _find_move(function))


def _find_move(function: FunctionInfo) -> ast.Call | None:
    for node in function.nodes:
        walks: list[ast.expr] = []
        if isinstance(node, ast.For):
            walks = [node.iter]
        elif isinstance(node, (ast.DictComp, ast.ListComp, ast.GeneratorExp)):
            walks = [node.generators[0].iter]
        if not any(_is_own_parts(each, function) for each in walks):
            continue
        for inner in subtree(node):
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in _MOVERS:
                return inner
    return None


def _is_own_parts(node: ast.expr, function: FunctionInfo) -> bool:
    """`self.__dict__.items()`, `vars(self)`, `dataclasses.fields(self)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "list" and node.args:
        return _is_own_parts(node.args[0], function)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys"):
        return _is_own_parts(node.func.value, function)
    if isinstance(node, ast.Call):
        given = [dotted(each) for each in node.args]
        return last_name(node.func) in _OWN_PARTS and given == [function.self_name]
    return isinstance(node, ast.Attribute) and node.attr == "__dict__" and dotted(node.value) == function.self_name
