"""Attributes that a base's method sets by what the subclass has: `self.net = self.make_net()`, `self.net_class()`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Device, Kind, Value, join_all, located
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.syntax.tree import own_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import AttributeStore, ClassInfo, FunctionInfo

_OBJECTS = (Kind.MODULE, Kind.INSTANCE)


def is_open(value: Value) -> bool:
    """Whether nothing is known of an attribute, or only that it is some module."""
    is_any_module = value.kind is Kind.MODULE and value.cls is None and value.ref is None and value.created is None
    return (value.kind in (Kind.UNKNOWN, Kind.NONE) or is_any_module) and not value.among


def as_set_for(
    inference: ValueQuestions, cls: ClassInfo, owner: ClassInfo, stores: Sequence[AttributeStore]
) -> Value | None:
    """What the stores of a base give the attribute in objects of the subclass; None if nothing of it is read there."""
    lineage = inference.lineage(cls)
    own = lineage[: lineage.index(owner)]
    names = {name for each in own for name in (*each.methods, *each.attributes)} - {"__init__"}
    if not names or any(store.function.cls is not owner for store in stores):
        return None
    if not any(names & _read_of_self(store) for store in stores):
        return None
    values = []
    for store in stores:
        value = inference.home(store.function.index).in_object(store.function, cls, store.target)
        path = store.function.index.path
        values.append(value if path == inference.index.path else located(value, path))
    found = join_all(values)
    return None if is_open(found) else found


def among_subclasses(inference: ValueQuestions, cls: ClassInfo, stores: Sequence[AttributeStore]) -> Value | None:
    """An object of one of the classes that the stores of a base give the attribute in objects of its subclasses.

    None unless most of the subclasses that decide it are known to give it an object of a class of the project: what the
    others do does not change what happens in these.
    """
    program = inference.program
    if program is None or any(store.function.cls is not cls for store in stores):
        return None
    read = frozenset().union(*map(_read_of_self, stores))
    if not read:
        return None
    deciding = [each for each in program.heirs(cls) if not read.isdisjoint((*each.methods, *each.attributes))]
    if not 0 < len(deciding) <= bounds.MOST_SUBCLASSES:
        return None
    given = [as_set_for(inference, heir, cls, stores) for heir in deciding]
    objects = [each for each in given if each is not None and each.cls is not None and each.kind in _OBJECTS]
    return join_all(objects) if 2 * len(objects) > len(given) else None


def set_by_heirs(inference: ValueQuestions, cls: ClassInfo, name: str) -> Value | None:
    """The tensor that subclasses alone set as an attribute, and methods of the base read; None if its place is unknown.

    Subclasses may have it from a class that they are mixed with, or as a property. Objects of classes that have it from
    nowhere cannot run what reads it.
    """
    program = inference.program
    heirs = [] if program is None else [each for each in program.heirs(cls) if _has_below(inference, each, cls, name)]
    if not 0 < len(heirs) <= bounds.MOST_SUBCLASSES:
        return None
    values = []
    for heir in heirs:
        if inference.method(heir, name) is not None:
            return None  # a property's value is made anew at each read
        value = inference.home(heir.index).attribute(heir, name)
        if not value.is_tensor:
            return None
        path = heir.index.path
        values.append(value if path == inference.index.path else located(value, path))
    found = join_all(values)
    return None if found.device is Device.UNKNOWN else found


def _has_below(inference: ValueQuestions, heir: ClassInfo, cls: ClassInfo, name: str) -> bool:
    """Whether objects of a subclass have the attribute from the subclass, or from another of its bases."""
    lineage = inference.home(heir.index).lineage(heir)
    return any(name in each.attributes or name in each.methods for each in lineage if each is not cls)


def _read_of_self(store: AttributeStore) -> frozenset[str]:
    """The attributes and methods of its own object that a method reads to set the attribute, by `getattr` as well."""
    function = store.function
    return function.index.note(("read of self", store.target), lambda: frozenset(_reads(function, store.target)))


def _reads(function: FunctionInfo, target: ast.expr) -> Iterator[str]:
    part = slices_of(function).of(target)
    for node in (node for statement in (() if part is None else part.run) for node in own_nodes(statement)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.value.id == function.self_name:
                yield node.attr
        elif isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
            asked = node.args[1]
            if isinstance(asked, ast.Constant) and isinstance(asked.value, str):
                yield asked.value
