"""Attributes by what the methods of their class do with them: `self.x = self.x.to(device)`, `self.loss.backward()`."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.accelerator_tests import arm_on_accelerator
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container, join, join_all
from torchperf_lint.model.syntax.backward import names_sent_backward, reduced_and_sent_backward
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.values.devices import moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo, Place

_EMPTY = container(None, (), "dict")
_MOVES = frozenset({"to", "cuda"})
_KEEPS_TENSOR = _MOVES | torch_api.VIEW_METHODS | torch_api.DTYPE_METHODS.keys() | {"clone", "contiguous", "detach"}


def joined(inference: ValueQuestions, cls: ClassInfo, stored: Sequence[tuple[AttributeStore, Value]]) -> Value:
    """The join of what statements store in an attribute of the class.

    A tensor that is reordered or viewed is still one, although a value that depends on itself is not known. One that
    the constructor's own call moves, or the method that alone sets it, is on the accelerator wherever other methods
    read it.
    """
    stored = _without_empty(stored)
    changes = {store: _change_in(store) for store, _ in stored} if len(stored) > 1 else {}
    first = join_all(value for store, value in stored if changes.get(store) is None)
    made = [change for change in changes.values() if change]
    if made and first.among and all(isinstance(node, ast.Subscript) for change in made for node in change):
        return first  # `self.agents = self.agents[0]`: an object, or the only one of a list
    if not made or not first.holds_tensors:
        return join_all(value for _, value in stored)
    for store, value in stored:
        change = changes[store]
        if change is not None:
            later = _changed(inference, store.function, change, first) if value.kind is Kind.UNKNOWN else value
            firsts = [other for other, _ in stored if changes[other] is None]
            is_moved = _follows_all(store, firsts) or _runs_when_made(inference, cls, store.function)
            first = join(first, later, lean=is_moved)
    return first


def _without_empty(stored: Sequence[tuple[AttributeStore, Value]]) -> Sequence[tuple[AttributeStore, Value]]:
    """The stores without `{}`, where others store dicts of tensors under known names."""
    if not any(value.items and value.ref == "dict" and (value.element or UNKNOWN).holds_tensors for _, value in stored):
        return stored
    return [(store, value) for store, value in stored if value != _EMPTY]


def trained(inference: ValueQuestions, cls: ClassInfo, name: str, value: Value) -> Value:
    """The attribute's value; a loss that a method of the class sends backward lives where the model is trained."""
    is_open = value.kind is Kind.UNKNOWN and not value.among
    if value.device is not Device.UNKNOWN or inference.cpu_only or not (is_open or value.holds_tensors):
        return value
    for method in (each for owner in inference.lineage(cls) for each in _senders(owner)):
        path = f"{method.self_name}.{name}"
        is_scalar = path in names_sent_backward(method)
        if is_scalar or path in reduced_and_sent_backward(method):
            says = "`.backward()` is called on this attribute, in a program for an accelerator"
            step = Because(method.node.lineno, says, method.index.path)  # type: ignore[union-attr]
            scalar = True if is_scalar else value.scalar
            return value._replace(kind=Kind.TENSOR, device=Device.LIKELY, scalar=scalar, because=(step,))
    return value


def _senders(cls: ClassInfo) -> list[FunctionInfo]:
    """The methods that send something backward."""
    return cls.sum_up("senders", lambda: [each for each in cls.methods.values() if _sends(each)])


def _sends(method: FunctionInfo) -> bool:
    return bool(names_sent_backward(method) or reduced_and_sent_backward(method))


def is_sent_to_host(inference: ValueQuestions, cls: ClassInfo, name: str) -> bool:
    """Whether a method that moves the whole object moves this part of it to the host afterwards."""
    for owner in inference.lineage(cls):
        for method, moves in owner.sum_up("parts moved again", functools.partial(_all_moved_again, owner)):
            if name in moves and _is_to_host(inference, method, moves[name]):
                return True
    return False


def _all_moved_again(cls: ClassInfo) -> list[tuple[FunctionInfo, dict[str, ast.Call]]]:
    found = [(method, _moved_again(method)) for method in cls.methods.values()]
    return [(method, moves) for method, moves in found if moves]


def _moved_again(method: FunctionInfo) -> dict[str, ast.Call]:
    """The last moves of parts, by their names, behind `self.to(device)` or `super().to(device)`."""
    found: dict[str, ast.Call] = {}
    is_whole_moved = False
    for record in method.calls_made:
        func = record.call.func
        if not isinstance(func, ast.Attribute) or func.attr not in (*_MOVES, "cpu"):
            continue
        moved_path = dotted(func.value)
        of_super = isinstance(func.value, ast.Call) and last_name(func.value.func) == "super"
        if of_super or (moved_path is not None and moved_path == method.self_name):
            is_whole_moved = True
        elif is_whole_moved and moved_path is not None and moved_path.startswith(f"{method.self_name}."):
            found[moved_path.removeprefix(f"{method.self_name}.")] = record.call
    return found


def _is_to_host(inference: ValueQuestions, method: FunctionInfo, move: ast.Call) -> bool:
    given = [*move.args, *(each.value for each in move.keywords if each.arg == "device")]
    places = [inference.home(method.index).frame_value(method, each) for each in given]
    return last_name(move.func) == "cpu" or any(each.device is Device.CPU for each in places)


def _change_in(store: AttributeStore) -> list[ast.expr] | None:
    """The calls and subscripts of `self.x = self.x[i].float()`, the last one first; None for anything else."""
    statement = store.function.parent_of(store.target)
    node = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    found: list[ast.expr] = []
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and _keeps_tensor(node)):
        found.append(node)
        node = node.value if isinstance(node, ast.Subscript) else node.func.value  # type: ignore[attr-defined]
    is_itself = node is not None and dotted(node) is not None and dotted(node) == dotted(store.target)
    return found if found and is_itself else None


def _keeps_tensor(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _KEEPS_TENSOR


def _changed(inference: ValueQuestions, function: FunctionInfo, change: list[ast.expr], tensor: Value) -> Value:
    """The tensor after such calls and subscripts, of which only a move says where it is."""
    tensor = tensor._replace(scalar=None, vector=None)
    for node in reversed(change):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MOVES:
            given = [inference.frame_value(function, each) for each in node.args]
            named = {each.arg: inference.frame_value(function, each.value) for each in node.keywords if each.arg}
            tensor = moved(node, tensor, node.func.attr, given, named)
    return tensor


def _follows_all(change: AttributeStore, firsts: Sequence[AttributeStore]) -> bool:
    """Whether the change is made after all others in their own method, always or if an accelerator is used."""
    function = change.function
    statement = function.parent_of(change.target)
    return (
        all(each.function is function and each.target.lineno < change.target.lineno for each in firsts)
        and isinstance(statement, ast.stmt)
        and _always(function.place_of(statement), function)
    )


def _runs_when_made(inference: ValueQuestions, cls: ClassInfo, method: FunctionInfo) -> bool:
    """Whether the constructor calls the method, always or if an accelerator is used."""
    init = inference.method(cls, "__init__")
    return init is not None and any(
        _is_call_of(record, method) and _always(record.place, record.function) for record in init.calls_made
    )


def _is_call_of(record: CallRecord, method: FunctionInfo) -> bool:
    return dotted(record.call.func) == f"{record.function.self_name}.{method.name}"


def _always(place: Place, function: FunctionInfo) -> bool:
    """Whether the statement there runs under no condition but that an accelerator is used."""
    while place.parent is not None:
        parent = place.parent
        if not isinstance(parent, ast.If) or arm_on_accelerator(parent.test) != place.field:
            return False
        place = function.place_of(parent)
    return True


def registered(inference: ValueQuestions, cls: ClassInfo, name: str) -> Value | None:
    """The buffer that constructors register by that name; of a known shape if nothing else sets the attribute."""
    owners = inference.lineage(cls)
    found = [
        record
        for owner in owners
        for record in owner.index.calls.get("register_buffer", ())
        if record.function.cls in owners and _names(record.call, name)
    ]
    if not found:
        return None
    buffer = Value(Kind.TENSOR, ref=torch_api.PARAMETER)
    given = found[0].call.args[1:2] or [each.value for each in found[0].call.keywords if each.arg == "tensor"]
    if len({id(record) for record in found}) > 1 or not given or any(name in owner.attributes for owner in owners):
        return buffer
    made = inference.home(found[0].function.index).frame_value(found[0].function, given[0])
    if made.kind is not Kind.TENSOR:
        return buffer
    return buffer._replace(scalar=made.scalar, vector=made.vector, dtype=made.dtype)


def _names(call: ast.Call, name: str) -> bool:
    """`register_buffer("name", ...)`."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and first.value == name


def is_bound(store: AttributeStore, owner: ClassInfo) -> bool:
    """Whether the statement gives the attribute a value: `x: Tensor` in a class body only declares its type."""
    return not any(
        isinstance(statement, ast.AnnAssign) and statement.target is store.target and statement.value is None
        for statement in owner.head.body
    )
