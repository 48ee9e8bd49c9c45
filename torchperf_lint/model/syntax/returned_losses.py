"""Losses that a function returns and its callers send backward: where they stand in what it returns."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.backward import entries_sent_backward, names_sent_backward
from torchperf_lint.model.syntax.index import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


class PlaceKind(enum.Enum):
    """How a part of what a function returns is named."""

    WHOLE = "all of it"
    INDEX = "the index in a tuple"
    KEY = "the key in a dict"
    FIELD = "the field of a record"


class Place(NamedTuple):
    """Where a part stands in what a function returns."""

    kind: PlaceKind
    name: int | str | None = None


def places_returned(function: FunctionInfo, name: str) -> frozenset[Place]:
    """Where a local name stands in what the function returns; nowhere in a module."""
    if function.is_module:
        return frozenset()
    return function.index.note(("returned", function), lambda: _returned(function)).get(name, frozenset())


def _returned(function: FunctionInfo) -> dict[str, frozenset[Place]]:
    found: dict[str, frozenset[Place]] = {}
    for statement in function.statements:
        if isinstance(statement, ast.Return) and statement.value is not None:
            for part, place in _parts(statement.value):
                if isinstance(part, ast.Name):
                    found[part.id] = found.get(part.id, frozenset()) | {place}
    return found


def _parts(node: ast.expr) -> Iterator[tuple[ast.expr, Place]]:
    if isinstance(node, ast.Tuple):
        if not any(isinstance(each, ast.Starred) for each in node.elts):
            yield from ((part, Place(PlaceKind.INDEX, place)) for place, part in enumerate(node.elts))
    elif isinstance(node, ast.Dict):
        for key, part in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield part, Place(PlaceKind.KEY, key.value)
    elif isinstance(node, ast.Call):
        is_record = (last_name(node.func) or "").lstrip("_")[:1].isupper()
        if is_record or dotted(node.func) == "dict":
            kind = PlaceKind.FIELD if is_record else PlaceKind.KEY
            yield from ((each.value, Place(kind, each.arg)) for each in node.keywords if each.arg is not None)
    else:
        yield node, Place(PlaceKind.WHOLE)


def is_sent_backward(record: CallRecord, place: Place) -> bool:
    """Whether the function that makes the call sends backward what stands at that place of its result."""
    caller = record.function
    around = caller.parents.get(record.call)
    if place.kind is PlaceKind.WHOLE and isinstance(around, ast.Attribute) and around.attr == "backward":
        return True
    target = None if caller.is_module else _bound(around)
    if isinstance(place.name, int):
        if not isinstance(target, ast.Tuple):
            return False
        if place.name >= len(target.elts) or any(isinstance(each, ast.Starred) for each in target.elts[: place.name]):
            return False
        return dotted(target.elts[place.name]) in names_sent_backward(caller)
    path = None if target is None else dotted(target)
    if path is None:
        return False
    if place.kind is PlaceKind.KEY:
        return (path, place.name) in entries_sent_backward(caller)
    return (f"{path}.{place.name}" if place.kind is PlaceKind.FIELD else path) in names_sent_backward(caller)


def _bound(node: ast.AST | None) -> ast.expr | None:
    """The one target that an assignment binds."""
    if isinstance(node, ast.Assign):
        return node.targets[0] if len(node.targets) == 1 else None
    return node.target if isinstance(node, ast.AnnAssign) else None
