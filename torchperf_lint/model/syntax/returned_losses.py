"""Losses that a function returns and its callers send backward: where they stand in what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.backward import entries_sent_backward, names_sent_backward
from torchperf_lint.model.syntax.index import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

Place = int | str | tuple[str] | None
"""The index in a tuple, the key in a dict, the field of a record (in a tuple of its own); None for all of it."""


def places_returned(function: FunctionInfo, name: str) -> frozenset[Place]:
    """Where a local name stands in what the function returns."""
    return function.index.note(("returned", function), lambda: _returned(function)).get(name, frozenset())


def _returned(function: FunctionInfo) -> dict[str, frozenset[Place]]:
    found: dict[str, frozenset[Place]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Return) and node.value is not None:
            for part, place in _parts(node.value):
                if isinstance(part, ast.Name):
                    found[part.id] = found.get(part.id, frozenset()) | {place}
    return found


def _parts(node: ast.expr) -> Iterator[tuple[ast.expr, Place]]:
    if isinstance(node, ast.Tuple):
        yield from ((part, place) for place, part in enumerate(node.elts))
    elif isinstance(node, ast.Dict):
        keyed = zip(node.keys, node.values, strict=True)
        yield from (
            (part, key.value) for key, part in keyed if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )
    elif isinstance(node, ast.Call):
        if (last_name(node.func) or "").lstrip("_")[:1].isupper():
            yield from ((each.value, (each.arg,)) for each in node.keywords if each.arg is not None)
    else:
        yield node, None


def is_sent_backward(record: CallRecord, place: Place) -> bool:
    """Whether the function that makes the call sends backward what stands at that place of its result."""
    caller = record.function
    around = caller.parents.get(record.call)
    if place is None and isinstance(around, ast.Attribute) and around.attr == "backward":
        return True
    if caller.is_module or not isinstance(around, ast.Assign) or len(around.targets) != 1:
        return False
    target = around.targets[0]
    if isinstance(place, int):
        if not isinstance(target, ast.Tuple) or any(isinstance(each, ast.Starred) for each in target.elts[: place + 1]):
            return False
        return place < len(target.elts) and dotted(target.elts[place]) in names_sent_backward(caller)
    path = dotted(target)
    if path is None or place is None:
        return path in names_sent_backward(caller)
    if isinstance(place, str):
        return (path, place) in entries_sent_backward(caller)
    return f"{path}.{place[0]}" in names_sent_backward(caller)
