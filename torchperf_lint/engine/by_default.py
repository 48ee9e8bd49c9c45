"""Places that run only with an option which is off by default, and which nothing in the project turns on."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.syntax.names import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo

_MOST_STEPS = 6
"""Names, attributes and arguments that are followed from a test to the literal which decides it."""

_MOST_CALLS = 20
"""Calls of a function whose arguments are looked at."""

_ASKS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
_FARTHEST = 20
"""The blocks around a place, and the statements before it in each, whose tests are looked at: chains may be long."""

_CALLED_AS_OBJECTS = frozenset({"forward", "__call__"})
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


_LEFT_OUT = _Option(None, "left out")


class _Spot(NamedTuple):
    """A function, in its file's model, and the calls on the way that lead to it, the nearest first."""

    model: Model
    function: FunctionInfo
    way: tuple[Link, ...]


def off_by_default(way: Sequence[Link]) -> Because | None:
    """The default that keeps the place from running, in its function or in one of those that lead to it."""
    for position, link in enumerate(way):
        function = link.model.place_of(link.statement).function
        spot = _Spot(link.model, function, tuple(way[position + 1 :]))
        for test, wanted in _tests(link):
            option = _truth(spot, test, _MOST_STEPS)
            if option is not None and option.default is not None and bool(option.value) is not wanted:
                text = f"this runs only with another `{option.name}` than its default, and nothing here gives it one"
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
    """What an expression is by default: a literal, a parameter, an attribute of the object, `config.get("x", 0)`."""
    literal = _literal(node)
    if literal is not None or steps <= 0:
        return literal
    if isinstance(node, ast.Name):
        if node.id in spot.function.parameter_names:
            return _parameter(spot, node.id, steps - 2) if spot.model.bound_once(spot.function, node.id) else None
        bound = spot.model.only_binding(spot.function, node.id)
        return None if bound is None else _option(spot, bound, steps - 1)
    if isinstance(node, ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id == spot.function.self_name
        return _attribute(spot, node.attr, steps - 1) if is_own else None
    if isinstance(node, ast.Call):
        return _looked_up(spot, node)
    return _truth(spot, node, steps - 1) if isinstance(node, _ASKS) else None


def _literal(node: ast.expr) -> _Option | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return _Option(-node.operand.value) if isinstance(node.operand.value, (int, float)) else None
    return _Option(node.value) if isinstance(node, ast.Constant) else None


def _looked_up(spot: _Spot, call: ast.Call) -> _Option | None:
    """`config.get("name", 0)`, `getattr(config, "name", False)`: what is there if nobody sets it."""
    name = last_name(call.func)
    if call.keywords or len(call.args) != {"get": 2, "getattr": 3}.get(name or ""):
        return None
    *_, key, default = call.args
    literal = _literal(default)
    if literal is None or not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return None
    return literal._replace(name=key.value, default=default, path=spot.model.path)


def _parameter(spot: _Spot, name: str, steps: int) -> _Option | None:
    """What all calls of the function give the parameter: its default, or what is one in turn."""
    default = spot.function.defaults.get(name)
    literal = None if default is None else _literal(default)
    calls = None if literal is None else _calls(spot)
    if literal is None or calls is None:
        return None
    literal = literal._replace(name=name, default=default, path=spot.function.path)
    given = (_given(spot.function, record, name, model, steps) for model, record in calls)
    return literal if all(each == _LEFT_OUT or _is_same(literal, each) for each in given) else None


def _is_same(literal: _Option, given: _Option | None) -> bool:
    return given is not None and type(given.value) is type(literal.value) and given.value == literal.value


def _given(function: FunctionInfo, record: CallRecord, name: str, caller: Model, steps: int) -> _Option | None:
    """What a call gives the parameter; None for what is not known."""
    argument = _argument(function, record.call, name)
    if isinstance(argument, ast.expr):
        return _option(_Spot(caller, record.function, ()), argument, steps)
    return None if argument is None else _LEFT_OUT


def _calls(spot: _Spot) -> Sequence[tuple[Model, CallRecord]] | None:
    """The calls that may run the function: the one on the way, or else all of the project; None if not known."""
    function, model = spot.function, spot.model.home(spot.function)
    records = model.possible_callers(function)
    on_the_way = [each for each in records if spot.way and each.call is spot.way[0].node]
    if on_the_way:
        records = on_the_way
    elif function.name in _CALLED_AS_OBJECTS:
        return None  # in files that need not know the class
    elif function.cls is not None and function.name == "__init__":
        records += _of_heirs(model, function.cls)
    if len(records) > _MOST_CALLS:
        return None
    return [(model.home(each.function), each) for each in records if each.function is not function]


def _of_heirs(model: Model, cls: ClassInfo) -> Iterator[CallRecord]:
    """The calls by which the classes below it call its constructor, or that make objects of those without their own."""
    for heir in model.heirs(cls):
        init = heir.methods.get("__init__")
        if init is None:
            yield from model.home(heir).calls_named(heir.name)
        else:
            yield from (each for each in init.calls_made if last_name(each.call.func) == "__init__")


def _argument(function: FunctionInfo, call: ast.Call, name: str) -> ast.expr | bool | None:
    """The argument that a call gives for the parameter; True if it leaves it out, None if that is not known."""
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None:
        return named
    arguments = function.arguments
    if arguments is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    is_unbound = (dotted(call.func) or "").endswith("__init__") and isinstance(call.func, ast.Attribute)
    is_unbound = is_unbound and not isinstance(call.func.value, ast.Call)  # type: ignore[attr-defined]
    skipped = function.self_name is not None and not is_unbound
    skips_context = last_name(call.func) == "apply" and function.name == "forward"  # of an `autograd.Function`
    at = names.index(name) - skipped - skips_context if name in names else len(call.args)
    if at < len(call.args):
        return call.args[at]
    return None if any(each.arg is None for each in call.keywords) else True


def _attribute(spot: _Spot, name: str, steps: int) -> _Option | None:
    """What the constructor of the object's class stores there, if nothing else stores it."""
    cls = spot.function.cls
    if cls is None:
        return None
    stores = [store for each in spot.model.lineage(cls) for store in each.attributes.get(name, ())]
    if len(stores) != 1 or stores[0].function.name not in ("__init__", "<module>"):
        return None
    store = stores[0]
    home = spot.model.home(store.function)
    if name in home.remember("attributes set elsewhere", lambda: _set_elsewhere(home)):
        return None
    stored = next((each for each in store.function.statements if _stores(each, store.target)), None)
    if stored is None:
        return None
    found = _option(_Spot(home, store.function, ()), stored.value, steps)  # type: ignore[attr-defined]
    return None if found is None or found.default is None else found


def _stores(statement: ast.stmt, target: ast.expr) -> bool:
    """Whether the statement stores one value there."""
    if isinstance(statement, ast.AnnAssign):
        return statement.target is target and statement.value is not None
    return isinstance(statement, ast.Assign) and target in statement.targets


def _set_elsewhere(model: Model) -> frozenset[str]:
    """The attributes that statements of the file set on anything but `self`."""
    targets = (
        target
        for each in model.statements
        for target in (each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)])
    )
    return frozenset(
        each.attr
        for each in targets
        if isinstance(each, ast.Attribute) and not (isinstance(each.value, ast.Name) and each.value.id == "self")
    )
