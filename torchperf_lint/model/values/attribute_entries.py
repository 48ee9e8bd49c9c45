"""Dicts in attributes: what the methods of a class set under a key, `self.parameters["scale"] = scale`."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Value, container, join, join_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

_SET_MORE = frozenset({"setdefault", "update"})


class _Stored(NamedTuple):
    """An entry that a function sets.

    Without a key where that is not known, without an expression where what is stored is not known, or a part of it.
    """

    function: FunctionInfo
    key: ast.Constant | None
    expression: ast.expr | None
    adds: bool = False

    def value_in(self, inference: ValueQuestions) -> Value:
        if self.expression is None:
            return UNKNOWN
        value = inference.frame_value(self.function, self.expression)._replace(constant=None)
        return value._replace(dtype=None) if self.adds else value


def with_entries(inference: ValueQuestions, held: Value, cls: ClassInfo, name: str) -> Value:
    """The dict of a literal, with what the methods of the class set in it besides."""
    stored = [each for owner in inference.lineage(cls) for each in _entries(owner, name)]
    if not stored:
        return held
    if len(stored) > bounds.MOST_ITEMS:
        return container(UNKNOWN, ref="dict")
    known = dict(held.items or ())
    # An unknown key may be any of those that all methods set, whatever their order.
    for each in sorted(stored, key=lambda entry: entry.key is None):
        value = each.value_in(inference)
        for key in list(known) if each.key is None else [each.key.value]:
            known[key] = join(known[key], value) if key in known else value
    return container(join_all(known.values()), known.items(), "dict")


def _entries(cls: ClassInfo, name: str) -> Iterator[_Stored]:
    for method in cls.methods.values():
        yield from method.note(("entries set", method), functools.partial(_set_in, method)).get(name, ())


def _set_in(method: FunctionInfo) -> dict[str, list[_Stored]]:
    """The entries that a method sets in attributes of `self`, by the attributes' names."""
    found: dict[str, list[_Stored]] = {}
    for node in method.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            statement = method.parent_of(node)
            adds = isinstance(statement, ast.AugAssign)
            # What is added to a number is one, `self.sums["loss"] += loss`, or else the two are of no single kind.
            expression = statement.value if isinstance(statement, (ast.Assign, ast.AugAssign)) else None
            key = node.slice if isinstance(node.slice, ast.Constant) else None
            stored = _Stored(method, key, expression, adds)
        elif isinstance(node, ast.Attribute) and node.attr in _SET_MORE:
            stored = _Stored(method, None, None)
        else:
            continue
        holder = node.value
        if isinstance(holder, ast.Attribute) and _is_self(holder.value, method):
            found.setdefault(holder.attr, []).append(stored)
    return found


def _is_self(node: ast.expr, method: FunctionInfo) -> bool:
    return isinstance(node, ast.Name) and node.id == method.self_name
