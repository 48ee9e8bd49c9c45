"""Loops over the items of a mapping: for which keys a name bound to their values reaches a use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.scope import names_bound_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Selection(NamedTuple):
    """`for key, value in holder.items():` around a use of `value`, and the tests of the key on the path to the use."""

    holder: ast.expr
    key: str
    tests: tuple[tuple[ast.expr, bool], ...]  # a condition, and its outcome on the path to the use

    def reaches(self, key: object) -> bool:
        """Whether the use may be reached in the pass for this key."""
        return all(_outcome(test, self.key, key) is not (not holds) for test, holds in self.tests)


def selection(use: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> Selection | None:
    """The loop over a mapping's items that binds the name for this use; None if there is none, or another binding."""
    tests: list[tuple[ast.expr, bool]] = []
    child: ast.AST = use
    parent = parents.get(use)
    while parent is not None and not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            body = parent.body if isinstance(parent, ast.If) else [parent.body]
            tests.append((parent.test, child in body))
        elif isinstance(parent, ast.For) and child in parent.body:
            tests += _passed_before(parent, child)
            found = _items_of(parent)
            if found is not None and use.id == found.value:
                return Selection(found.holder, found.key, tuple(tests))
        child, parent = parent, parents.get(parent)
    return None


class _Items(NamedTuple):
    holder: ast.expr
    key: str
    value: str


def _items_of(loop: ast.For) -> _Items | None:
    call, target = loop.iter, loop.target
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "items"):
        return None
    if call.args or call.keywords or not isinstance(target, ast.Tuple):
        return None
    names = [part.id for part in target.elts if isinstance(part, ast.Name)]
    rebound = {name for statement in loop.body for name in names_bound_in(statement)}
    if len(names) != 2 or len(target.elts) != 2 or not rebound.isdisjoint(names):
        return None
    return _Items(call.func.value, *names)


def _passed_before(loop: ast.For, statement: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """`if key == ...: continue` above the statement."""
    for earlier in loop.body:
        if earlier is statement:
            return
        if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], ast.Continue):
            yield earlier.test, False


def _outcome(test: ast.expr, name: str, key: object) -> bool | None:
    """The outcome of a condition when `name` is `key`; None if that does not determine it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _outcome(test.operand, name, key)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        outcomes = [_outcome(value, name, key) for value in test.values]
        return decides if decides in outcomes else None if None in outcomes else not decides
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return None
    left, operator, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(left, ast.Constant):
        left, right = right, left
    if not (isinstance(left, ast.Name) and left.id == name):
        return None
    if isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant):
        return (right.value == key) is isinstance(operator, ast.Eq)
    if isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        keys = [each.value for each in right.elts if isinstance(each, ast.Constant)]
        return (key in keys) is isinstance(operator, ast.In) if len(keys) == len(right.elts) else None
    return None
