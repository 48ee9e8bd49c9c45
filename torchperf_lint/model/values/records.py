"""Objects that hold data by name: dataclasses, named tuples, and objects whose constructor keeps its arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions, hooks
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import (
    UNKNOWN,
    Device,
    Kind,
    Origin,
    Registry,
    Value,
    container,
    join_all,
    with_fields,
)
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.syntax.names import positional_of
from torchperf_lint.model.values.annotations import annotated
from torchperf_lint.model.values.devices import moved
from torchperf_lint.model.values.spreading import is_starred
from torchperf_lint.model.values.tensors import placed
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

_DATACLASSES = frozenset(
    {"dataclass", "dataclasses.dataclass", "attr.s", "attr.define", "attrs.define", "attrs.frozen"}
)
_NAMED_TUPLES = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})
_MOVES = ("to", "cuda", "cpu")
_HELD = (Kind.TENSOR, Kind.PYTREE, Kind.CONTAINER, Kind.NUMBER, Kind.NUMPY, Kind.STRING)


def made(
    inference: ValueQuestions, instance: Value, call: ast.Call, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """A new object of a class of the program with the fields that its call fills, if any holds tensors."""
    cls = instance.cls
    given = (*arguments, *keywords.values())
    if instance.kind is not Kind.INSTANCE or cls is None or not any(map(_holds_tensors, given)) or is_starred(call):
        return instance
    if _NAMED_TUPLES.isdisjoint(inference.library_bases(cls)):
        return _object(inference, instance, cls, arguments, keywords)
    names = [name for name, _ in _declared(cls)]
    return named_tuple(names, arguments, keywords)._replace(cls=cls)


def named_tuple(names: list[str], arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """A named tuple with these fields; `constant` has their names."""
    given = {**dict(zip(names, arguments, strict=False)), **keywords}
    values = [given.get(name, UNKNOWN) for name in names]
    return container(join_all(values), list(enumerate(values)), "tuple")._replace(constant=tuple(names))


def names_of(arguments: list[Value]) -> list[str] | None:
    """The fields of `namedtuple("Pair", ["a", "b"])` and `namedtuple("Pair", "a b")`."""
    asked = arguments[1] if len(arguments) > 1 else UNKNOWN
    if asked.kind is Kind.STRING and isinstance(asked.constant, str):
        return asked.constant.replace(",", " ").split()
    names = [value.constant for _, value in asked.items or ()] if asked.kind is Kind.CONTAINER else []
    return [str(name) for name in names] if names and all(isinstance(name, str) for name in names) else None


def entry(inference: ValueQuestions, holder: Value, index: Value) -> Value | None:
    """`x[i]` of an object whose class defines that; where none of several classes does, x is a list of such objects."""
    classes = [each for each in holder.among if not isinstance(each, Registry)]
    if holder.kind is Kind.UNKNOWN and classes and len(classes) == len(holder.among):
        return None if any(inference.method(each, "__getitem__") for each in classes) else holder
    if holder.kind is not Kind.INSTANCE or holder.cls is None:
        return None
    method = inference.method(holder.cls, "__getitem__")
    return None if method is None else inference.called(method, [holder, index], {})


def iterated(inference: ValueQuestions, value: Value) -> Value:
    """What a loop goes over: what the generator `__iter__` of an object yields, or the value itself."""
    method = None if value.kind is not Kind.INSTANCE or value.cls is None else inference.method(value.cls, "__iter__")
    return inference.called(method, [value], {}) if method is not None and method.is_generator else value


def as_mapping(record: Value) -> Value | None:
    """`asdict(x)`, `vars(x)` and `x.__dict__` of an object whose fields are known."""
    if record.kind is not Kind.INSTANCE or not record.items:
        return None
    return container(join_all(value for _, value in record.items), record.items, "dict")


def replaced(record: Value, fields: Mapping[str, Value]) -> Value | None:
    """`dataclasses.replace(x, **fields)`, and `x._replace(**fields)` of a named tuple; None for anything else."""
    if record.kind is Kind.CONTAINER and isinstance(record.constant, tuple) and fields.keys() <= {*record.constant}:
        given = {**{name: field(record, name) or UNKNOWN for name in map(str, record.constant)}, **fields}
        return named_tuple([*given], [*given.values()], {})._replace(cls=record.cls)
    if record.kind is not Kind.INSTANCE or record.cls is None or "**" in fields:
        return None
    kept = {str(name): value for name, value in record.items or ()}
    return with_fields(record._replace(created=None), {**kept, **fields})


def field(base: Value, name: str) -> Value | None:
    """A field of such an object; None if its value is not known."""
    if base.kind is Kind.CONTAINER and isinstance(base.constant, tuple) and name in base.constant:
        place = base.constant.index(name)
        return next((value for key, value in base.items or () if key == place), base.element)
    if base.kind is not Kind.INSTANCE or base.items is None:
        return None
    if name == "__dict__":
        return as_mapping(base)
    value = dict(base.items).get(name, UNKNOWN)
    return None if value.kind is Kind.UNKNOWN else value


def after_method(
    call: ast.Call, base: Value, method: FunctionInfo | None, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """The object after one of its methods has run: `batch.to(device)` moves the fields that it sets by
    `self.x = self.x.to(device)`. Fields that methods set in other ways are not known of the object at all.
    """
    if method is None or method.name not in _MOVES or base.items is None:
        return base
    moves = _moved_in(method)
    fields = {
        str(name): moved(call, value, method.name, arguments, keywords)
        if str(name) in moves and value.holds_tensors
        else value
        for name, value in base.items
    }
    return with_fields(base, fields)


def _moved_in(method: FunctionInfo) -> frozenset[str]:
    """The fields that a method moves, and sets in no other way."""
    return method.index.note(("moved fields", method), lambda: frozenset(_find_moved(method)))


def _find_moved(method: FunctionInfo) -> set[str]:
    moves: set[str] = set()
    others: set[str] = set()
    for node in method.nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            path = dotted(target) or ""
            func = node.value.func if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
            is_move = isinstance(func, ast.Attribute) and func.attr == method.name and dotted(func.value) == path
            (moves if is_move else others).add(path.partition(".")[2])
    return moves - others


def _set_later(inference: ValueQuestions, cls: ClassInfo) -> set[str]:
    """The fields that a method other than the constructor sets, unless it only moves them.

    They are not followed: which calls set them is not known to the slices of a function.
    """
    return {
        name
        for owner in inference.lineage(cls)
        for name, stores in owner.attributes.items()
        for function in (store.function for store in stores)
        if function.cls is owner and function.name != "__init__"
        if function.name not in _MOVES or name not in _moved_in(function)
    }


def _object(
    inference: ValueQuestions, instance: Value, cls: ClassInfo, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    if _is_dataclass(cls):
        owners = [owner for owner in reversed(inference.lineage(cls)) if _is_dataclass(owner)]
        declared = {name: default for owner in owners for name, default in _declared(owner)}
        given = {**dict(zip(declared, arguments, strict=False)), **keywords}
        fields = {name: given.get(name, UNKNOWN) for name in declared}
    else:
        init = inference.method(cls, "__init__")
        if init is None or init.arguments is None:
            return instance
        parameters = positional_of(init.arguments)[1:]
        given = {**dict(zip(parameters, arguments, strict=False)), **keywords}
        fields = {name: given.get(parameter, UNKNOWN) for name, parameter in _kept(init).items()}
    later = _set_later(inference, cls)
    held = {name: value for name, value in fields.items() if value.kind in _HELD and name not in later}
    if not any(map(_holds_tensors, held.values())) or len(held) > bounds.MOST_ITEMS:
        return instance
    return with_fields(instance, held)


def of_step(state: Value, device: Device, because: tuple[Because, ...]) -> Value:
    """A framework's object that holds what the current step has: its loss, its batch, its outputs."""
    data = Value(Kind.PYTREE, device, because=because, origin=Origin.BATCH)
    loss = Value(Kind.TENSOR, device, dtype="float", because=because)
    return with_fields(
        state._replace(kind=Kind.INSTANCE), {hooks.HELD_LOSS: loss, **dict.fromkeys(hooks.HELD_DATA, data)}
    )


def promised(inference: ValueQuestions, instance: Value, because: tuple[Because, ...]) -> Value:
    """An object of a dataclass or named tuple whose tensors are on the device, by the annotations of its fields.

    Fields that are such objects themselves are on the device, too. An object without tensors is returned as it is.
    """
    return _promised(inference, instance, because, bounds.MOST_NESTED)


def _promised(inference: ValueQuestions, instance: Value, because: tuple[Because, ...], levels: int) -> Value:
    cls = instance.cls
    if instance.kind is not Kind.INSTANCE or instance.items is not None or cls is None or levels == 0:
        return instance
    is_tuple = not _NAMED_TUPLES.isdisjoint(inference.library_bases(cls))
    if not is_tuple and not _is_dataclass(cls):
        return instance
    values: dict[str, Value] = {}
    for owner in reversed(inference.lineage(cls)):
        home = inference.home(owner.index)
        for each in _fields(owner):
            if isinstance(each.target, ast.Name):
                name = each.target.id
                on_host = conventions.stays_on_host(name)
                value = annotated(each.annotation, home, None, owner.index.module) or UNKNOWN
                values[name] = value if on_host else placed(_promised(home, value, because, levels - 1), because)
    tensors = {name: value for name, value in values.items() if value.holds_tensors or value.items is not None}
    if not tensors or len(values) > bounds.MOST_ITEMS:
        return instance
    if is_tuple:
        return named_tuple(list(values), list(values.values()), {})._replace(cls=cls)
    return with_fields(instance, tensors)


def declares_tensors(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether a dataclass or a named tuple has fields that its annotations say to be tensors."""
    if not _is_dataclass(cls) and _NAMED_TUPLES.isdisjoint(inference.library_bases(cls)):
        return False
    annotations = [each.annotation for owner in inference.lineage(cls) for each in _fields(owner)]
    return any(_names_tensor(annotation) for annotation in annotations)


def _names_tensor(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Constant):
        return isinstance(annotation.value, str) and "Tensor" in annotation.value
    return any((last_name(part) or "").endswith("Tensor") for part in subtree(annotation) if isinstance(part, ast.expr))


def _holds_tensors(value: Value) -> bool:
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    return value.holds_tensors


def _is_dataclass(cls: ClassInfo) -> bool:
    called = [each.func if isinstance(each, ast.Call) else each for each in cls.decorators]
    return any((dotted(each) or "") in _DATACLASSES for each in called)


def _declared(cls: ClassInfo) -> list[tuple[str, ast.expr | None]]:
    """The fields that the class body declares, in order, with their defaults."""
    return [(each.target.id, each.value) for each in _fields(cls) if isinstance(each.target, ast.Name)]


def _fields(cls: ClassInfo) -> list[ast.AnnAssign]:
    return [each for each in cls.head.body if isinstance(each, ast.AnnAssign) and _is_field(each.annotation)]


def _is_field(annotation: ast.expr) -> bool:
    return last_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation) != "ClassVar"


def _kept(init: FunctionInfo) -> dict[str, str]:
    """`self.x = x` of a constructor: the attributes that keep a parameter as it is, and are set once in it."""
    return init.index.note(("kept", init), lambda: _find_kept(init))


def _find_kept(init: FunctionInfo) -> dict[str, str]:
    kept: dict[str, str] = {}
    again: set[str] = set()
    bound = init.index.bound_names(init)
    for node in init.nodes:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            root, _, name = (dotted(target) or "").partition(".")
            if root != init.self_name or not name.isidentifier():
                continue
            if name in kept or name in again:
                kept.pop(name, None)
            elif isinstance(node.value, ast.Name) and bound.count(node.value.id) == 1:
                kept[name] = node.value.id
            again.add(name)
    return kept
