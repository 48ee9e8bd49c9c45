"""Path conditions: a test in one call of a function is true, false, or a formula over what the call leaves open.

Decided from syntax alone: literals that are passed or are defaults, and names bound to them.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.finding import none_test
from torchperf_lint.model.syntax.index import FunctionInfo, last_name
from torchperf_lint.model.syntax.texts import rest_of
from torchperf_lint.model.values import narrowing
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.model.syntax.index import CallRecord

Formula = Any
"""True, False, ("?", what), ("=", what, literal), ("not", formula), ("and", *formulas) or ("or", *formulas)."""

OUTERMOST = "$"
"""The prefix of a parameter whose function has no known caller."""

_TEXT_METHODS = ("lower", "upper", "strip")
_COUNT = frozenset("abs bool dim float int len ndimension numel round size".split())
_TYPES = {"int": int, "float": float, "bool": bool, "str": str, "list": list, "tuple": tuple, "dict": dict}
_NEVER_LITERAL = ("Tensor", "ndarray", "Module")
_FLOATS = frozenset({"float32", "float"})
_HALF_FLOATS = frozenset({"float16", "bfloat16", "half"})


class Scope:
    """A function as one call runs it; `depth` is how many calls lead here."""

    __slots__ = ("call", "caller", "depth", "function")

    def __init__(self, function: FunctionInfo, call: CallRecord | None = None, caller: Scope | None = None) -> None:
        """`call` is None if the arguments are unknown, `caller` if no call is known."""
        self.function = function
        self.call = call
        self.caller = caller
        self.depth: int = 0 if caller is None else caller.depth + 1


class _Spot(NamedTuple):
    """An expression, and where it is read; `tests` counts the tests on the way here that decide about bindings."""

    node: ast.expr
    statement: ast.stmt
    scope: Scope
    tests: int = 0

    def at(self, node: ast.expr) -> _Spot:
        return _Spot(node, *self[1:])  # `_replace` takes four times as long


class _Term(NamedTuple):
    """An expression as a literal, or as a text that identifies its value."""

    text: str
    is_literal: bool = False
    literal: object = None
    is_object: bool = False  # never None


def formula(test: ast.expr, statement: ast.stmt, scope: Scope) -> Formula:
    """The formula of the test where the statement reads it."""
    return _formula(_Spot(test, statement, scope))


def literal(node: ast.expr, statement: ast.stmt, scope: Scope) -> ast.Constant | None:
    """The literal that the expression is where the statement reads it; None if it is none, or not known."""
    term = _term(_Spot(node, statement, scope))
    return ast.Constant(term.literal) if term.is_literal else None  # type: ignore[arg-type]


def found_by_name(func: ast.expr, name: str, statement: ast.stmt, scope: Scope) -> Formula:
    """The formula that a callee is the function of that name: of `getattr(x, event)`, that `event` is the name.

    True for a callee that is not looked up by name, or where the name is not known.
    """
    found = _meant(_Spot(func, statement, scope))
    node = None if isinstance(found, str) else found.node
    if not isinstance(node, ast.Call) or last_name(node.func) != "getattr" or len(node.args) < 2:
        return True
    assert isinstance(found, _Spot)
    inner: tuple[ast.expr, str] | None = (node.args[1], name)
    while inner is not None:
        asked, text = inner
        inner = rest_of(asked, text)
    return _equal(_term(found.at(asked)), _Term(repr(text), True, text, True), False)


def negated(inner: Formula) -> Formula:
    """The negated formula."""
    if isinstance(inner, bool):
        return not inner
    return inner[1] if inner[0] == "not" else ("not", inner)


def joined(word: str, parts: list[Formula]) -> Formula:
    """`and` or `or` of the formulas."""
    decisive = word == "or"
    if decisive in parts:
        return decisive
    left = list(dict.fromkeys(part for part in parts if not isinstance(part, bool)))
    if len(left) < 2:
        return left[0] if left else not decisive
    return (word, *left)


def atoms(inner: Formula) -> set[Formula]:
    """The atoms of a formula, which are open."""
    if isinstance(inner, bool):
        return set()
    return {inner} if inner[0] in ("?", "=") else {atom for part in inner[1:] for atom in atoms(part)}


def holds(inner: Formula, given: dict[Formula, bool]) -> bool:
    """Whether the formula is true with all its atoms given."""
    if isinstance(inner, bool):
        return inner
    if inner[0] == "not":
        return not holds(inner[1], given)
    if inner[0] in ("and", "or"):
        return (all if inner[0] == "and" else any)(holds(part, given) for part in inner[1:])
    return given[inner]


def given_atoms(inner: Formula, known: Mapping[str, ast.Constant]) -> Formula:
    """The formula simplified with some subjects known to be literals."""
    if isinstance(inner, bool) or not known:
        return inner
    if inner[0] == "not":
        return negated(given_atoms(inner[1], known))
    if inner[0] in ("and", "or"):
        return joined(inner[0], [given_atoms(part, known) for part in inner[1:]])
    if inner[1] not in known:
        return inner
    value = known[inner[1]].value
    return bool(value) if inner[0] == "?" else repr(value) == inner[2]


def _formula(spot: _Spot) -> Formula:
    eagerly = narrowing.runs_eagerly(spot.node)
    if eagerly is not None:
        return eagerly
    if last_name(spot.node) == "TYPE_CHECKING":
        return False
    found = _meant(spot)
    if isinstance(found, str):
        return ("?", found)
    node = found.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return negated(_formula(found.at(node.operand)))
    if isinstance(node, ast.BoolOp):
        word = "and" if isinstance(node.op, ast.And) else "or"
        return joined(word, [_formula(found.at(part)) for part in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        sides = [_formula(found.at(node.left)), _formula(found.at(node.right))]
        # Of numbers, both may be true and share no bit.
        return joined("or", sides) if isinstance(node.op, ast.BitOr) else joined("and", [*sides, ("?", _unique(found))])
    if isinstance(node, ast.Compare):
        return _comparison(found, node)
    if isinstance(node, ast.Attribute) and node.attr == "is_floating_point" and _is_asked_dtype(found.at(node.value)):
        return True
    if isinstance(node, ast.Call) and last_name(node.func) == "isinstance" and len(node.args) == 2:
        return _instance(found, node)
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        asks_for_none = none_test(found.scope.function, node.func)
        if asks_for_none is not None:
            is_none = _equal(_term(found.at(node.args[0])), _Term(repr(None), True), True)
            return is_none if asks_for_none else negated(is_none)
    term = _term(found)
    if term.is_literal:
        return bool(term.literal)
    return ("?", term.text)


def _comparison(spot: _Spot, node: ast.Compare) -> Formula:
    if len(node.ops) != 1:
        return ("?", _unique(spot))
    operator, right = node.ops[0], node.comparators[0]
    answer: Formula = ("?", _unique(spot))
    if isinstance(operator, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        answer = _equal(_term(spot.at(node.left)), _term(spot.at(right)), isinstance(operator, (ast.Is, ast.IsNot)))
    elif isinstance(operator, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        left = _term(spot.at(node.left))
        if _is_asked_dtype(spot.at(node.left)) and _names_usual_floats(right):
            answer = True
        else:
            answer = joined("or", [_equal(left, _term(spot.at(each)), False) for each in right.elts])
    return negated(answer) if isinstance(operator, (ast.IsNot, ast.NotEq, ast.NotIn)) else answer


def _equal(left: _Term, right: _Term, by_identity: bool) -> Formula:
    if left.is_literal and right.is_literal:
        if by_identity and left.literal is not None and right.literal is not None:
            return left.literal is right.literal if isinstance(right.literal, bool) else ("?", left.text + right.text)
        return left.literal == right.literal
    if left.is_literal:
        left, right = right, left
    if not right.is_literal:
        if by_identity and left.text == right.text:
            return True  # one expression, evaluated once
        return ("?", " == ".join(sorted((left.text, right.text))))
    return False if right.literal is None and left.is_object else ("=", left.text, right.text)


def _instance(spot: _Spot, node: ast.Call) -> Formula:
    """The formula of `isinstance(x, T)`; decided if `x` is a literal."""
    term = _term(spot.at(node.args[0]))
    named = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
    names = [last_name(each) or "" for each in named]
    if term.is_literal:
        if any(isinstance(term.literal, _TYPES[name]) for name in names if name in _TYPES):
            return True
        if all(name in _TYPES or name in _NEVER_LITERAL for name in names):
            return False
    return ("?", f"isinstance({term.text}, {', '.join(names)})" if all(names) else _unique(spot))


def _is_asked_dtype(spot: _Spot) -> bool:
    """Whether it is the dtype that a call requests by name, which is a usual floating one unless stated otherwise.

    A tensor's own dtype is different: images are bytes, labels are integers.
    """
    if not isinstance(spot.node, ast.Name) or not spot.node.id.endswith("dtype"):
        return False
    found = _meant(spot)
    if isinstance(found, str):
        return True
    return isinstance(found.node, ast.Attribute) and found.node.attr == "dtype"


def _names_usual_floats(choices: ast.Tuple | ast.List | ast.Set) -> bool:
    names = {last_name(each) for each in choices.elts}
    return not names.isdisjoint(_FLOATS) and not names.isdisjoint(_HALF_FLOATS)


def _term(spot: _Spot) -> _Term:
    if _is_infinity(spot.node, spot.scope.function):
        return _Term(repr(math.inf), True, math.inf, True)
    found = _meant(spot)
    if isinstance(found, str):
        return _Term(found)
    node = found.node
    if isinstance(node, ast.Constant):
        return _Term(repr(node.value), True, node.value, node.value is not None)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, (int, float)):
            return _Term(repr(-value), True, -value, True)
    if isinstance(node, ast.Attribute):
        return _Term(f"{_term(found.at(node.value)).text}.{node.attr}")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float" and node.args:
        inner = _term(found.at(node.args[0]))
        if isinstance(inner.literal, (int, float)):
            return _Term(repr(float(inner.literal)), True, float(inner.literal), True)
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _TEXT_METHODS:
            inner = _term(found.at(func.value))
            if isinstance(inner.literal, str):
                changed = getattr(inner.literal, func.attr)()
                return _Term(repr(changed), True, changed, True)
            return _Term(f"{inner.text}.{func.attr}()", is_object=True)
    made = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.Lambda, ast.ListComp, ast.DictComp, ast.BinOp)
    return _Term(_unique(found), is_object=isinstance(node, made) or _counts(node))


def _counts(node: ast.expr) -> bool:
    """`len(x)`, `x.size(0)`, `x.shape[0]`, `int(x)`: a number, and never None."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return isinstance(node, ast.Call) and last_name(node.func) in _COUNT


def _is_infinity(node: ast.AST, function: FunctionInfo) -> bool:
    """`math.inf`, `torch.inf`, an imported `inf`, `float("inf")`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float":
        return len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == "inf"
    if isinstance(node, ast.Name):
        return node.id == "inf" and "inf" not in function.index.bound_names(function)
    return isinstance(node, ast.Attribute) and node.attr == "inf" and isinstance(node.value, ast.Name)


def _unique(spot: _Spot) -> str:
    """A text that no other expression has, because the expression may have another value each time it is read."""
    return f"{spot.scope.depth}:{spot.scope.function.index.path}:{spot.node.lineno}:{spot.node.col_offset}"


def _meant(spot: _Spot) -> _Spot | str:
    """The expression that a name is bound to; a text if unknown."""
    while isinstance(spot.node, ast.Name):
        found = _bound(spot, spot.node.id)
        if found is None:
            return _unique(spot)
        if isinstance(found, str):
            return found
        spot = found
    return spot


def _bound(spot: _Spot, name: str) -> _Spot | str | None:
    """The binding of a name where it is read: an expression, a text if the value stays the same; None if neither."""
    function = spot.scope.function
    if name not in function.index.bound_names(function):
        return f"{spot.scope.depth}:{name}"
    found = _reaching(spot, name)
    if found is not None or name not in function.parameter_names:
        return found if found is not _OPEN else None
    scope = spot.scope
    if scope.caller is None:
        return OUTERMOST + name
    given = None if scope.call is None else given_for(function, scope.call.call, name)
    if given is None:
        return f"{scope.depth}:{name}"
    if given is function.defaults.get(name):
        return spot.at(given) if isinstance(given, ast.Constant) else f"{scope.depth}:{name}"
    assert scope.call is not None
    return _Spot(given, scope.call.statement, scope.caller, spot.tests)


_OPEN = _Spot(ast.Constant(None), ast.Pass(), Scope(None))  # type: ignore[arg-type]
"""An unknown binding."""


def _reaching(spot: _Spot, name: str) -> _Spot | None:
    """The assignment that reaches the place where a name is read; _OPEN if unknown, None for none."""
    index = spot.scope.function.index
    if name not in _assigned(spot.scope.function) and name not in index.rebound_elsewhere:
        return None
    statement = spot.statement
    while True:
        place = index.places[statement]
        found = _last_binding(place.block[: place.position], name, spot)
        if found is not None:
            return found
        parent = place.parent
        if parent is None:
            return None
        if not isinstance(parent, ast.If) and _binds(parent, name, index):
            return _OPEN
        statement = parent


def _assigned(function: FunctionInfo) -> frozenset[str]:
    """The names that the function binds, without those that are only parameters."""
    index, parameters = function.index, len(function.parameter_names)
    return index.note(("assigned", function), lambda: frozenset(index.bound_names(function)[parameters:]))


def _last_binding(block: list[ast.stmt], name: str, spot: _Spot) -> _Spot | None:
    """The last binding of a name in a block before it is read at the spot; None if the block does not bind it."""
    scope = spot.scope
    for statement in reversed(block):
        if not _binds(statement, name, scope.function.index):
            continue
        if isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets):
            return _Spot(statement.value, statement, scope, spot.tests)
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            return _Spot(statement.value, statement, scope, spot.tests)
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            return _Spot(_spelled_out(statement, statement.target), statement, scope, spot.tests)
        if not isinstance(statement, ast.If) or spot.tests == bounds.MOST_TESTS_OF_BINDINGS:
            return _OPEN
        taken = _formula(_Spot(statement.test, statement, scope, spot.tests + 1))
        if not isinstance(taken, bool):
            return _OPEN
        found = _last_binding(statement.body if taken else statement.orelse, name, spot)
        if found is not None:
            return found
    return None


def _spelled_out(statement: ast.AugAssign, target: ast.Name) -> ast.expr:
    """`x &= y` as `x & y`; its place is the end of the statement, where no other expression begins."""
    old = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    row, column = statement.end_lineno or statement.lineno, statement.end_col_offset or 0
    return ast.BinOp(old, statement.op, statement.value, lineno=row, col_offset=column)


def _binds(statement: ast.stmt, name: str, index: Any) -> bool:
    """Whether the statement, or one nested in it, binds the name."""
    bound = index.note(("binds", statement), lambda: frozenset(_bindings_in(statement)))
    return name in bound


def _bindings_in(statement: ast.stmt) -> set[str]:
    found = set()
    for node in subtree(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
            isinstance(node, ast.ExceptHandler) and node.name
        ):
            found.add(node.name or "")
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
    return found
