"""Traversals of `ast` trees, twice as fast as those of `ast`, which look at every field.

They expect trees from the parser: nodes that have all of their fields.
"""

from __future__ import annotations

import ast
import functools

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_PLAIN = frozenset(
    "arg asname attr conversion ctx id is_async kind kwd_attrs level lineno module name rest simple str tag "
    "type_comment".split()
)
"""Fields with texts and numbers, and contexts, which an expression's own `ctx` gives."""

_PLAIN_IN = {"Constant": "value", "Global": "names", "Nonlocal": "names", "MatchSingleton": "value"}
_NODE_IN = {"TypeAlias": "name"}
_WITH_GAPS = (ast.Dict, ast.arguments)  # their lists contain None for a missing key or default


def _fields_with_nodes(cls: type[ast.AST]) -> tuple[str, ...]:
    name = cls.__name__
    return tuple(
        field
        for field in cls._fields
        if (field not in _PLAIN and _PLAIN_IN.get(name) != field) or _NODE_IN.get(name) == field
    )


def _all_kinds(cls: type[ast.AST]) -> list[type[ast.AST]]:
    return [cls, *(each for kind in cls.__subclasses__() for each in _all_kinds(kind))]


KEPT_STATEMENTS = 2_000
"""How many statements' nodes are kept: those of a long file."""

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {cls: _fields_with_nodes(cls) for cls in _all_kinds(ast.AST)}


def children(node: ast.AST) -> list[ast.AST]:
    """The direct children of a node, in the order of its fields; without contexts such as `ast.Load()`."""
    found: list[ast.AST] = []
    for field in _FIELDS[node.__class__]:
        value = getattr(node, field)
        if value.__class__ is list:
            found += value if node.__class__ not in _WITH_GAPS else filter(None, value)
        elif value is not None:
            found.append(value)
    return found


def subtree(node: ast.AST) -> list[ast.AST]:
    """The node and all its descendants, breadth-first."""
    found = [node]
    fields, with_gaps = _FIELDS, _WITH_GAPS
    for each in found:
        kind = each.__class__
        for field in fields[kind]:
            value = getattr(each, field)
            if value.__class__ is list:
                found += value if kind not in with_gaps else filter(None, value)
            elif value is not None:
                found.append(value)
    return found


@functools.lru_cache(maxsize=KEPT_STATEMENTS)
def own_nodes(statement: ast.stmt) -> tuple[ast.AST, ...]:
    """The nodes of a statement, itself first, breadth-first, without those of nested statements.

    Many rules ask this of the same statements.
    """
    found: list[ast.AST] = [statement]
    for node in found:
        for child in children(node):
            if not isinstance(child, ast.stmt):
                found.append(child)  # noqa: PERF401
    return tuple(found)


@functools.lru_cache(maxsize=KEPT_STATEMENTS)
def own_expressions(statement: ast.stmt) -> tuple[ast.expr, ...]:
    """The expressions of a statement, breadth-first, without those of nested statements."""
    return tuple(node for node in own_nodes(statement) if isinstance(node, ast.expr))


class TakenApart:
    """A result about a tree that refers to itself: taken apart, it frees the tree without the garbage collector."""

    def take_apart(self) -> None:
        """Drop all references; no query is allowed afterwards."""
        vars(self).clear()
