"""Flags that the project leaves alone: the only literal that an attribute has in all objects that the project makes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import constructors
from torchperf_lint.model.frequency import path_conditions
from torchperf_lint.model.frequency.path_conditions import OUTERMOST, Scope
from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.frequency.path_conditions import Formula
    from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo, Index

_OWN_CLASS = frozenset({"cls", "__class__"})
_ASKS = frozenset({"isinstance", "issubclass", "super", "cast"})


class Asked(NamedTuple):
    """What a path through a method asks of the attributes of its object."""

    method: FunctionInfo
    conditions: frozenset[Formula]


class Stored(NamedTuple):
    """The expressions that a constructor stores as an attribute, each with its statement, in the order of the file."""

    init: FunctionInfo
    stores: tuple[tuple[ast.stmt, ast.expr], ...]


class Constructions(NamedTuple):
    """The calls that run a constructor, also from constructors below; `is_open` if a table may make objects, too."""

    records: tuple[CallRecord, ...]
    is_open: bool


def asked_of_object(function: FunctionInfo, asked: Iterable[Formula]) -> frozenset[Asked]:
    """What a path condition on the function's parameters asks of its object; empty if nothing."""
    begins = _attributes_of(function)
    conditions = frozenset(
        each for each in asked if any(atom[1].startswith(begins) for atom in path_conditions.atoms(each))
    )
    return frozenset({Asked(function, conditions)}) if conditions and function.self_name is not None else frozenset()


def rule_out(inference: ValueQuestions, asked: Asked, made: CallRecord | None) -> bool:
    """Whether the object that this call makes lacks such attributes; without it, all objects that the project makes.

    `inference` is that of the method's file. False if no call is known that makes one.
    """
    cls, begins = asked.method.cls, _attributes_of(asked.method)
    flags: dict[str, ast.Constant] = {}
    for text in sorted({atom[1] for each in asked.conditions for atom in path_conditions.atoms(each)}):
        name = text.removeprefix(begins)
        if cls is not None and name != text and name.isidentifier():
            literal = only_literal(inference, cls, name, made)
            flags.update({} if literal is None else {text: literal})
    return any(path_conditions.given_atoms(each, flags) is False for each in asked.conditions)


def making(inference: ValueQuestions, record: CallRecord, method: FunctionInfo) -> CallRecord | None:
    """The call in the same file that makes the object whose method a call calls; None if it is not known."""
    func = record.call.func
    receiver = func.value if isinstance(func, ast.Attribute) and func.attr == method.name else func
    created = inference.alone(lambda: inference.parts(record, receiver))[0].created
    name = None if created is None else last_name(created.func)
    return next((each for each in record.function.index.calls.get(name or "", ()) if each.call is created), None)


def _attributes_of(function: FunctionInfo) -> str:
    """How the attributes of the method's object begin in a path condition on its parameters."""
    return f"{OUTERMOST}{function.self_name}."


def only_literal(inference: ValueQuestions, cls: ClassInfo, name: str, made: CallRecord | None) -> ast.Constant | None:
    """The literal that `self.name` has in the object that the call makes; None if there is no such.

    Only its constructor sets it. Without `made`, all objects of the class that the project makes: all calls of the
    class give the constructor the same, and the class has no subclasses.
    """
    init = cls.methods.get("__init__")
    lineage = inference.lineage(cls)
    stores = [store for each in lineage for store in each.attributes.get(name, ())]
    if init is None or not stores or any(store.function is not init for store in stores):
        return None
    if _has_setter_of_any(cls):
        return None
    records = constructions(inference, init) if made is None else [made]
    files = dict.fromkeys([cls.index, *(each.function.index for each in records)])
    if not records or any(_is_set_elsewhere(index, name, init, lineage) for index in files):
        return None
    first, *others = [_literal(store, record) for store in stores for record in records]
    is_same = first is not None and all(each is not None and ast.dump(each) == ast.dump(first) for each in others)
    return first if is_same else None


def stored_by_constructor(inference: ValueQuestions, cls: ClassInfo, name: str) -> Stored | None:
    """What a constructor of the class or of one above stores as `self.name`; None if something else may set it."""
    lineage = inference.lineage(cls)
    stores = [store for each in lineage for store in each.attributes.get(name, ())]
    init = stores[0].function if stores else None
    if init is None or init.name != "__init__" or any(store.function is not init for store in stores):
        return None
    made = constructions_below(inference, init)
    below = () if init.cls is None else constructors.heirs_of(inference, init.cls)
    family = [*lineage, *(each for each in below if each not in lineage)]
    if made is None or any(each.attributes.get(name) for each in below if each is not init.cls):
        return None
    setting = dict.fromkeys([cls, *below] if init.cls is None else [cls, init.cls, *below])
    if any(map(_has_setter_of_any, setting)):
        return None
    files = dict.fromkeys([*(each.index for each in family), *(each.function.index for each in made.records)])
    if any(_is_set_elsewhere(index, name, init, lineage) for index in files):
        return None
    targets = [store.target for store in stores]
    stored = [
        (statement, value)
        for statement in init.statements
        for target in targets
        if (value := _stored(statement, target)) is not None
    ]
    return Stored(init, tuple(stored)) if len(stored) == len(targets) else None


def constructions_below(inference: ValueQuestions, init: FunctionInfo) -> Constructions | None:
    """The calls that run the constructor; None if objects may be made in ways that are not known."""
    cls, program = init.cls, inference.program
    if cls is None:
        return None
    family = [cls, *constructors.heirs_of(inference, cls)]
    beyond = [] if program is None else program.calls_elsewhere(init, bounds.MOST_CALLERS)
    decorators = [decorator for each in family for decorator in each.decorators]
    # A decorator with arguments, or one of an object, often puts the class where configurations find it.
    if (
        beyond is None
        or not all(isinstance(each, ast.Name) for each in decorators)
        or any(map(_calls_own_class, family))
    ):
        return None
    made = [each for each in family if inference.method(each, init.name) is init]
    records = [*beyond, *constructors.calls_by_heirs(inference, init)]
    for each in made:
        others = () if program is None or each is cls else program.calling_class(each)
        indices = [each.index, *(file.index for file in others)]
        records += (record for index in indices for record in index.calls_named(each.name))
    passing = () if program is None else (file.index for each in made for file in program.files_passing(each))
    is_open = bool(decorators) or any(_is_value(each.name, index) for each in made for index in (each.index, *passing))
    return Constructions(tuple(dict.fromkeys(records)), is_open)


def constructions(inference: ValueQuestions, init: FunctionInfo) -> list[CallRecord]:
    """The calls that make objects of the constructor's class; none if these may also be made otherwise."""
    cls, program = init.cls, inference.program
    assert cls is not None
    if program is not None and program.heirs(cls):
        return []
    files = [init.index, *(() if program is None else (file.index for file in program.files_passing(cls)))]
    if cls.decorators or any(_is_value(cls.name, index) for index in files):
        return []
    beyond = [] if program is None else program.calls_elsewhere(init, bounds.MOST_CALLERS)
    return [] if beyond is None else [*init.index.calls_named(cls.name), *beyond]


def _is_value(name: str, index: Index) -> bool:
    """Whether something of that name is stored or handed over in the file: a class that is may be called anywhere."""
    given = (last_name(record.call.func) for record in index.handed.get(name, ()))
    return bool(index.also_called(name) or name in index.held or name in index.defaults or set(given) - _ASKS)


def _literal(store: AttributeStore, record: CallRecord) -> ast.Constant | None:
    """The literal that the constructor stores in such a call."""
    for statement in store.function.statements:
        value = _stored(statement, store.target)
        if value is not None:
            return path_conditions.literal(value, statement, Scope(store.function, record, Scope(record.function)))
    return None


def _stored(statement: ast.stmt, target: ast.expr) -> ast.expr | None:
    """The expression that a statement stores there: `self.a = x`, `self.a, self.b = x, y`."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return None
    value = statement.value
    for each in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        if each is target:
            return value
        if isinstance(each, ast.Tuple) and isinstance(value, ast.Tuple) and target in each.elts:
            is_plain = not any(isinstance(part, ast.Starred) for part in (*each.elts, *value.elts))
            return value.elts[each.elts.index(target)] if is_plain and len(each.elts) == len(value.elts) else None
    return None


def _is_set_elsewhere(index: Index, name: str, init: FunctionInfo, lineage: list[ClassInfo]) -> bool:
    """Whether the file may set the attribute other than in the constructor, and than unrelated classes set theirs."""
    known = [
        store.target
        for each in index.classes
        for store in each.attributes.get(name, ())
        if store.function is init or each not in lineage
    ]
    found = index.note("attributes set", lambda: _attributes_set(index)).get(name, ())
    return any(target not in known for target in found)


def _calls_own_class(cls: ClassInfo) -> bool:
    """Whether a method of the class makes an object by `cls(...)` or `self.__class__(...)`."""

    def find() -> bool:
        calls = (each.call for method in cls.methods.values() for each in method.calls_made)
        return any(last_name(call.func) in _OWN_CLASS for call in calls)

    return cls.sum_up("calls its own class", find)


def _has_setter_of_any(cls: ClassInfo) -> bool:
    """Whether a method of the class sets attributes by computed names."""
    return cls.sum_up("sets any", lambda: any(map(_sets_any, cls.methods.values())))


def _sets_any(method: FunctionInfo) -> bool:
    """Whether the method sets attributes by computed names: `setattr(self, name, value)`, `self.__dict__.update(x)`."""
    calls = (record.call for record in method.calls_made if last_name(record.call.func) in ("setattr", "vars"))
    return any(each.args and last_name(each.args[0]) == method.self_name for each in calls) or any(
        isinstance(node, ast.Attribute) and node.attr == "__dict__" for node in method.nodes
    )


def _attributes_set(index: Index) -> dict[str, list[ast.Attribute]]:
    found: dict[str, list[ast.Attribute]] = {}
    for node in index.module.nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.attr, []).append(node)
    return found
