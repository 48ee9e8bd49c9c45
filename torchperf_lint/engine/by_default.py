"""Places that run only with an option, of an object or of a call, which is off by default and which nothing sets."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.engine.queue_events import runs_its_body
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_MOST_STEPS = 6
"""Names and attributes that are followed from a test to the literal which decides it."""

_MOST_CALLS = 20
"""Calls of one function that are looked at."""

_FARTHEST = 20
"""Only so many blocks around a place, and statements before it in each, are searched for tests."""

_CALLED_BY_OTHERS = frozenset({"__init__", "__call__", "forward"})
"""Functions that calls reach without their names."""

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
    """A function in its file's model, and what is known of its parameters."""

    model: Model
    function: FunctionInfo
    known: Mapping[str, _Option] = {}


def off_by_default(way: Sequence[Link]) -> Because | None:
    """The default that keeps the place from running, in its function or in those that alone lead to it."""
    below: FunctionInfo | None = None
    for link in way:
        if below is not None and any(each.call is not link.node for each in link.model.callers(below)):
            return None
        below = link.model.place_of(link.statement).function
        spot = _Spot(link.model, below)
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
    if isinstance(node, ast.Name) and (node.id in spot.known or node.id in spot.function.parameter_names):
        return spot.known[node.id] if node.id in spot.known else _parameter(spot, node.id, steps)
    if isinstance(node, ast.Name):
        bound = spot.model.only_binding(spot.function, node.id)
        return None if bound is None else _option(spot, bound, steps - 1)
    if isinstance(node, ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id == spot.function.self_name
        return _attribute(spot, node.attr, steps - 1) if is_own else None
    if isinstance(node, ast.Call):
        return _answer(spot, node, steps - 1)
    return _truth(spot, node, steps - 1) if isinstance(node, _ASKS) else None


def _literal(node: ast.expr) -> _Option | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return _Option(-node.operand.value) if isinstance(node.operand.value, (int, float)) else None
    return _Option(node.value) if isinstance(node, ast.Constant) else None


def _parameter(spot: _Spot, name: str, steps: int) -> _Option | None:
    """What all calls that are found give a parameter by default; without any, its own default.

    A default None says nothing without calls: what the function is made for may be given there.
    """
    function = spot.function
    return spot.model.remember(("option", function, name, steps), lambda: _given_by_calls(spot, name, steps))


def _given_by_calls(spot: _Spot, name: str, steps: int) -> _Option | None:
    function, default = spot.function, spot.function.defaults.get(name)
    applied = _applied(spot.model, function)
    records = applied or spot.model.possible_callers(function)
    if function.bound_names.count(name) != 1 or _is_rebound(function, name) or len(records) > _MOST_CALLS:
        return None
    if not applied and (function.name in _CALLED_BY_OTHERS or _is_handed_over(spot.model, function)):
        return None
    own = None if default is None else _literal(default)
    if own is not None:
        own = own._replace(name=name, default=default, path=function.path)
    found: list[_Option] = []
    for record in records:
        given = _applied_to(function, record.call, name) if applied else given_for(function, record.call, name)
        if given is not None and record.function is function and _goes_on(given, name, own):
            continue
        there = _Spot(spot.model.home(record.function), record.function)
        option = None if given is None else own if given is default else _option(there, given, steps - 1)
        if option is None or (found and option.value != found[0].value):
            return None
        found.append(option)
    if not found:
        is_open = own is None or own.value is None or not runs_its_body(function)  # a decorator may keep it in a table
        return None if is_open else own
    return next((each for each in found if each.default is not None), found[0])


def _applied(model: Model, function: FunctionInfo) -> list[CallRecord]:
    """The calls around that run the `forward(ctx, ...)` of an autograd function: `Sparsemax.apply(x, k)`.

    Empty where `Sparsemax.apply` is a value, too, which may be called by any name.
    """
    if function.name != "forward" or function.cls is None or "ctx" not in function.parameter_names[:2]:
        return []
    records = [
        each
        for near in model.with_neighbours
        for each in near.calls_named("apply")
        if isinstance(each.call.func, ast.Attribute) and last_name(each.call.func.value) == function.cls.name
    ]
    called = [each.call.func for each in records]
    taken = (
        node
        for near in model.with_neighbours
        for where in near.functions
        for node in where.nodes
        if isinstance(node, ast.Attribute) and node.attr == "apply" and last_name(node.value) == function.cls.name
    )
    return [] if any(node not in called for node in taken) else records


def _applied_to(function: FunctionInfo, call: ast.Call, name: str) -> ast.expr | None:
    """What such a call gives for a parameter; None if it spreads arguments."""
    if call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = function.parameter_names
    place = names.index(name) - names.index("ctx") - 1
    return call.args[place] if 0 <= place < len(call.args) else function.defaults.get(name)


def _is_rebound(function: FunctionInfo, name: str) -> bool:
    """Whether a function within it, or a pattern, may set the name."""
    return any(
        (isinstance(each, ast.Nonlocal) and name in each.names)
        or (isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name == name)
        or (isinstance(each, ast.MatchMapping) and each.rest == name)
        for each in subtree(function.node)
    )


def _goes_on(given: ast.expr, name: str, own: _Option | None) -> bool:
    """Whether a function that calls itself hands on what it was given; with None nothing is reckoned."""
    names = [each.id for each in subtree(given) if isinstance(each, ast.Name)]
    return name in names and (isinstance(given, ast.Name) or (own is not None and own.value is None))


def _is_handed_over(model: Model, function: FunctionInfo) -> bool:
    """Whether a framework calls the function, or another one that gets it as an argument."""
    return model.contract(function) is not None or bool(model.given_away(function))


def _answer(spot: _Spot, call: ast.Call, steps: int) -> _Option | None:
    """What a function of the project with one parameter says of an option: `exists(mask)`."""
    asked = spot.model.value_in(spot.function, call.func).function
    if asked is None or len(asked.parameter_names) != 1 or len(call.args) != 1 or call.keywords:
        return None
    answer = asked.body[0] if len(asked.body) == 1 else None
    option = _option(spot, call.args[0], steps) if isinstance(answer, ast.Return) and answer.value else None
    if option is None or not isinstance(answer, ast.Return) or answer.value is None:
        return None
    known = {asked.parameter_names[0]: option}
    return _truth(_Spot(spot.model.home(asked), asked, known), answer.value, steps)


def _attribute(spot: _Spot, name: str, steps: int) -> _Option | None:
    """What the constructor of the object's class stores there by default."""
    cls = spot.function.cls
    stored = None if cls is None else spot.model.home(cls).stored_by_default(cls, name)
    if stored is None:
        return None
    init = stored.init
    known = {each: _Option(default.value, each, default, init.path) for each, default in stored.left.items()}
    found = _option(_Spot(spot.model.home(init), init, known), stored.expression, steps)
    return None if found is None or found.default is None else found
