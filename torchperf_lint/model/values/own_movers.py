"""Objects whose own `to(device)` moves all that they hold: it goes over `self.__dict__`, `vars(self)` or the fields."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from torchperf_lint.engine.findings import Moved
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, with_fields
from torchperf_lint.model.syntax.bulk_moves import asks_for_movable
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.values import parameters
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOVERS = frozenset({"to", "cuda"})
_NAMES = _MOVERS | {"to_device", "move_to", "send_to"}
_Comprehension = ast.DictComp | ast.ListComp | ast.GeneratorExp
_COMPREHENSIONS = (ast.DictComp, ast.ListComp, ast.GeneratorExp)
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
    device = Device.UNKNOWN if values is None else values.get(move, UNKNOWN).device
    path = None if function.index is inference.index else function.index.path
    step = Moved(move.lineno, f"`{function.name}` moves what the object holds to the device", path)
    because = (step,) if device.on_accelerator else ()
    if moved.items is not None:
        there = {
            str(name): value._replace(device=device, because=because) if value.holds_tensors else value
            for name, value in moved.items
        }
        moved = with_fields(moved, there)
    return moved._replace(device=device if device.on_accelerator else Device.UNKNOWN, because=because)


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
        if isinstance(node, ast.For) and _is_own_parts(node.iter, function):
            found = _moved_in(node.body, function)
        elif isinstance(node, _COMPREHENSIONS) and _is_own_parts(node.generators[0].iter, function):
            found = _moved_by(node, function)
        else:
            continue
        if found is not None:
            return found
    return None


def _moved_in(block: list[ast.stmt], function: FunctionInfo) -> ast.Call | None:
    """The move in a loop's body, whose result becomes an attribute: under tests of types alone, and nothing else."""
    stores = [each for each in block if _owner_set(each) is not None or isinstance(each, ast.If)]
    for statement in stores if len(stores) == 1 else ():
        if isinstance(statement, ast.If):
            return _moved_in(statement.body, function) if asks_for_movable(statement.test) else None
        owner = _owner_set(statement)
        returns = [each.value for each in function.nodes if isinstance(each, ast.Return)]
        given_back = [None if each is None else dotted(each) for each in returns]
        if owner == function.self_name or (given_back and all(each == owner for each in given_back)):
            return _stored_move(statement, block)
    return None


def _stored_move(statement: ast.stmt, block: list[ast.stmt]) -> ast.Call | None:
    """The move that is what a statement stores, or what a name in the block has that it stores."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    stored = call.args[2] if isinstance(call, ast.Call) else getattr(statement, "value", None)
    if isinstance(stored, ast.Name):
        bound = [each.value for each in block if isinstance(each, ast.Assign) and _binds(each, stored.id)]
        stored = bound[-1] if bound else None
    if isinstance(stored, ast.IfExp):
        stored = stored.body if asks_for_movable(stored.test) else None
    return stored if _is_move(stored) else None


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in statement.targets)


def _owner_set(statement: ast.stmt) -> str | None:
    """`out` of `setattr(out, key, value)` and of `out.__dict__[key] = value`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and last_name(call.func) == "setattr" and len(call.args) == 3:
        return dotted(call.args[0])
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Subscript) and last_name(target.value) == "__dict__":
        return (dotted(target.value) or "").removesuffix(".__dict__")
    return None


def _moved_by(made: _Comprehension, function: FunctionInfo) -> ast.Call | None:
    """The move in `return Batch(**{key: value.to(device) for key, value in vars(self).items()})`."""
    holder = function.parents.get(made)
    call = function.parents.get(holder) if isinstance(holder, (ast.keyword, ast.Starred)) else None
    if not isinstance(call, ast.Call) or not isinstance(function.parents.get(call), ast.Return):
        return None
    if len(call.args) + len(call.keywords) > 1 + (last_name(call.func) == "replace"):
        return None
    result = made.value if isinstance(made, ast.DictComp) else made.elt
    if isinstance(result, ast.IfExp):
        result = result.body if asks_for_movable(result.test) else ast.Constant(None)
    is_whole = not made.generators[0].ifs and len(made.generators) == 1
    return result if is_whole and _is_move(result) else None


def _is_move(node: ast.expr | None) -> TypeGuard[ast.Call]:
    """`value.to(device)`, to the same place for each part."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVERS:
        return False
    return not any(isinstance(each, ast.IfExp) for each in subtree(node))


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
