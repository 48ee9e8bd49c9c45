"""Places that run only with an option of an object which is off by default, and which nothing in the project sets."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import Because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOST_STEPS = 6
"""Names and attributes that are followed from a test to the literal which decides it."""

_FARTHEST = 20
"""Only so many blocks around a place, and statements before it in each, are searched for tests."""

_ASKS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
}


class _Option(NamedTuple):
    """What an expression is if nobody sets it; `default` is the literal where it stands, None for a bare literal."""

    value: object
    name: str = ""
    default: ast.expr | None = None
    path: str = ""


class _Spot(NamedTuple):
    """A function in its file's model, and the parameters that have their defaults in all its calls."""

    model: Model
    function: FunctionInfo
    left: Mapping[str, ast.Constant]


def off_by_default(way: Sequence[Link]) -> Because | None:
    """The default that keeps the place from running, in its function or in one of those that lead to it."""
    for link in way:
        spot = _Spot(link.model, link.model.place_of(link.statement).function, {})
        for test, wanted in _tests(link):
            option = _truth(spot, test, _MOST_STEPS)
            if option is not None and option.default is not None and bool(option.value) is not wanted:
                text = f"this does not run with the default of `{option.name}`, and no call that was found sets another"
                return Because(option.default.lineno, text, option.path)
    return None


def _tests(link: Link) -> Iterator[tuple[ast.expr, bool]]:
    """The tests between the beginning of the function and the place, and what each of them has to be."""
    for each in itertools.islice(link.model.place_of(link.statement).outwards(), _FARTHEST):
        for earlier in each.before[-_FARTHEST:]:
            if isinstance(earlier, ast.If) and not earlier.orelse and isinstance(earlier.body[-1], _LEAVES):
                yield earlier.test, False
        if isinstance(each.parent, ast.If) and each.field in ("body", "orelse"):
            yield each.parent.test, each.field == "body"


def _truth(spot: _Spot, test: ast.expr, steps: int) -> _Option | None:
    """What the test is by default; None if that is open."""
    if steps <= 0:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(spot, test.operand, steps)
        return None if inner is None else inner._replace(value=not inner.value)
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        parts = [_truth(spot, each, steps) for each in test.values]
        deciding = next((each for each in parts if each is not None and bool(each.value) is decisive), None)
        return deciding if deciding is not None or None in parts else parts[-1]
    if isinstance(test, ast.Compare):
        return _compared(spot, test, steps) if len(test.ops) == 1 else None
    return _option(spot, test, steps)


def _compared(spot: _Spot, test: ast.Compare, steps: int) -> _Option | None:
    compare = _COMPARE.get(type(test.ops[0]))
    left, right = (_option(spot, each, steps) for each in (test.left, test.comparators[0]))
    if compare is None or left is None or right is None:
        return None
    named = left if left.default is not None else right
    try:
        return named._replace(value=compare(left.value, right.value))
    except TypeError:
        return None


def _option(spot: _Spot, node: ast.expr, steps: int) -> _Option | None:
    """What an expression is by default: a literal, or an attribute of the object that its constructor makes of one."""
    literal = _literal(node)
    if literal is not None or steps <= 0:
        return literal
    if isinstance(node, ast.Name) and node.id in spot.left:
        default = spot.left[node.id]
        return _Option(default.value, node.id, default, spot.function.path)
    if isinstance(node, ast.Name):
        bound = spot.model.only_binding(spot.function, node.id)
        return None if bound is None else _option(spot, bound, steps - 1)
    if isinstance(node, ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id == spot.function.self_name
        return _attribute(spot, node.attr, steps - 1) if is_own else None
    return _truth(spot, node, steps - 1) if isinstance(node, _ASKS) else None


def _literal(node: ast.expr) -> _Option | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return _Option(-node.operand.value) if isinstance(node.operand.value, (int, float)) else None
    return _Option(node.value) if isinstance(node, ast.Constant) else None


def _attribute(spot: _Spot, name: str, steps: int) -> _Option | None:
    """What the constructor of the object's class stores there by default."""
    cls = spot.function.cls
    stored = None if cls is None else spot.model.home(cls).stored_by_default(cls, name)
    if stored is None:
        return None
    found = _option(_Spot(spot.model.home(stored.init), stored.init, stored.left), stored.expression, steps)
    return None if found is None or found.default is None else found
