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


class _Stored(NamedTuple):
    """An entry that a function sets; without an expression where what is stored is a part of something."""

    function: FunctionInfo
    key: ast.expr
    expression: ast.expr | None

    def value_in(self, inference: ValueQuestions) -> Value:
        if self.expression is None:
            return UNKNOWN
        return inference.frame_value(self.function, self.expression)._replace(constant=None)


def with_entries(inference: ValueQuestions, held: Value, cls: ClassInfo, name: str) -> Value:
    """The dict of a literal, with what the methods of the class set in it besides."""
    stored = [each for owner in inference.lineage(cls) for each in _entries(owner, name)]
    if not stored:
        return held
    if len(stored) > bounds.MOST_ITEMS:
        return container(UNKNOWN, ref="dict")
    known = dict(held.items or ())
    for each in stored:
        value = each.value_in(inference)
        for key in [each.key.value] if isinstance(each.key, ast.Constant) else list(known):
            known[key] = join(known[key], value) if key in known else value
    return container(join_all(known.values()), known.items(), "dict")


def _entries(cls: ClassInfo, name: str) -> Iterator[_Stored]:
    for method in cls.methods.values():
        yield from method.note(("entries set", method), functools.partial(_set_in, method)).get(name, ())


def _set_in(method: FunctionInfo) -> dict[str, list[_Stored]]:
    """The entries that a method sets in attributes of `self`, by the attributes' names."""
    found: dict[str, list[_Stored]] = {}
    for statement in method.statements:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
            for part in parts:
                holder = part.value if isinstance(part, ast.Subscript) else None
                if isinstance(holder, ast.Attribute) and _is_self(holder.value, method):
                    assert isinstance(part, ast.Subscript)
                    value = statement.value if part is target else None
                    found.setdefault(holder.attr, []).append(_Stored(method, part.slice, value))
    return found


def _is_self(node: ast.expr, method: FunctionInfo) -> bool:
    return isinstance(node, ast.Name) and node.id == method.self_name
