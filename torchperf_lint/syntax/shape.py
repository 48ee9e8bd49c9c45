"""Predicates on the form of libcst nodes that many rules need; no semantics, no positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.syntax import cst
from torchperf_lint.syntax.edits import code_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard


class Unclear:
    """The result when `*args` or `**kwargs` may contain the argument."""


UNCLEAR = Unclear()


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | Unclear | None:
    """The argument passed as `name=` or at the 0-based position; None if absent, UNCLEAR if a star may contain it."""
    starred = False
    for place, item in enumerate(call.args):
        if item.star:
            starred = True
        elif item.keyword is not None:
            if item.keyword.value == name:
                return item.value
        elif place == position and not starred:
            return item.value
    return UNCLEAR if starred else None


def receiver(call: cst.Call) -> cst.BaseExpression | None:
    """`x` of `x.method(...)`."""
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def method_name(call: cst.Call) -> str | None:
    """`method` of `x.method(...)`, `f` of `f(...)`."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else None


def dotted(node: cst.CSTNode) -> str | None:
    """`a.b.c` as text for a chain of names and attributes."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr.value}"
    return None


def without_calls(node: cst.BaseExpression, names: frozenset[str]) -> cst.BaseExpression:
    """`x` of `x.detach().cpu()`: the receiver below trailing argument-free calls of these methods."""
    while (
        isinstance(node, cst.Call)
        and not node.args
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in names
    ):
        node = node.func.value
    return node


def names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    """Every name in the node, including attributes and keywords."""
    if isinstance(node, cst.Name):
        yield node
    for child in node.children:
        yield from names_in(child)


def calls_in(node: cst.CSTNode) -> Iterator[cst.Call]:
    """Every call in the node."""
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        yield from calls_in(child)


def binds_or_defers(node: cst.CSTNode) -> bool:
    """Whether the node contains `(x := ...)`, a lambda, `await` or `yield`: these must keep their order and place."""
    if isinstance(node, (cst.NamedExpr, cst.Lambda, cst.Await, cst.Yield)):
        return True
    return any(binds_or_defers(child) for child in node.children)


def is_filled_text(node: cst.CSTNode) -> TypeGuard[cst.BinaryOperation]:
    """Whether the node is `"... %s ..." % values`, or `("%s" * 2 + "%f") % values`."""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo) and _is_text(node.left)


def _is_text(node: cst.BaseExpression) -> bool:
    """Whether the node is a string literal, or several repeated and put together."""
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Multiply)):
        node = node.left
    return isinstance(node, (cst.SimpleString, cst.ConcatenatedString))


def is_literal(node: cst.BaseExpression | None, text: str) -> bool:
    """Whether the node is this name or literal: `is_literal(node, "True")`."""
    return node is not None and code_of(node) == text
