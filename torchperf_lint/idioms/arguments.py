"""Arguments of a call as written in the file, including a literal `**kwargs` dictionary."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.containers import CHANGE_DICTS
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo


class Given(NamedTuple):
    """The argument for one parameter."""

    value: Value | None  # None: nothing is passed
    node: cst.BaseExpression | None = None  # the argument itself; None where a dictionary holds it

    @property
    def absent(self) -> bool:
        """Whether the parameter keeps its default."""
        return self.value is None

    def is_constant(self, constant: object) -> bool:
        """Whether exactly this constant is written as the argument or in the dictionary (`0` is not `False`)."""
        if self.value is None or type(self.value.constant) is not type(constant):
            return False
        literal = self.node is None or shape.is_literal(self.node, repr(constant))
        return literal and self.value.constant == constant


def given(model: Model, call: cst.Call, name: str, position: int | None = None) -> Given | None:
    """The argument passed as `name=` or at the 0-based position; None if unknown."""
    node = shape.argument(call, name, position)
    if isinstance(node, cst.BaseExpression):
        return Given(model.value(node), node)
    for item in call.args:
        if not item.star:
            continue
        entries = _entries(model, item.value) if item.star == "**" else None
        if entries is None:
            return None
        if name in entries:
            return Given(entries[name])
    return Given(None)


def passed(call: ast.Call, function: FunctionInfo, name: str) -> ast.expr | None:
    """The argument for a parameter of the called function; None if unclear."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    position = function.parameter_names.index(name) - (function.self_name is not None)
    if any(isinstance(argument, ast.Starred) for argument in call.args) or not 0 <= position < len(call.args):
        return None
    return call.args[position]


def _may_change(model: Model, name: str) -> bool:
    """Whether the file subscripts the name, merges others into it, or calls a method that changes it."""
    return model.remember(("changes", name), lambda: any(_changes(node, name) for node in model.top.nodes))


def _changes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in CHANGE_DICTS and dotted(node.value) == name
    if isinstance(node, ast.AugAssign):
        return dotted(node.target) == name
    return isinstance(node, ast.Subscript) and dotted(node.value) == name


def _entries(model: Model, mapping: cst.BaseExpression) -> dict[object, Value] | None:
    """The entries of a dictionary that is a literal and never changed."""
    value = model.value(mapping)
    if value.kind is not Kind.CONTAINER or value.ref != "dict" or value.items is None:
        return None
    name = shape.dotted(mapping)
    if name is not None and _may_change(model, name):
        return None
    return dict(value.items)
