"""Path conditions over chains of calls: which branches the arguments along a chain rule out."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.frequency import path_conditions
from torchperf_lint.model.frequency.path_conditions import OUTERMOST, Scope
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import CallRecord, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.frequency.path_conditions import Formula
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import FunctionInfo, Index

Flags = dict[str, ast.Constant]
"""Attributes with a known literal, by their text in path conditions."""

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_TYPE_TESTS = ("isinstance", "is_tensor", "hasattr")
_WITHS = (ast.With, ast.AsyncWith)


class Step(NamedTuple):
    """A call on the path to a statement; `shows` says whether its arguments are those of the called function."""

    record: CallSite
    shows: bool


def demands(
    statement: ast.stmt, function: FunctionInfo, steps: tuple[Step, ...], node: ast.expr | None = None
) -> frozenset[Formula] | None:
    """The path condition on the outermost function's parameters for the calls to lead to the statement.

    `steps` leads outwards from the function around the statement; with `node`, the path ends at this expression.
    None: no arguments lead there.
    """
    if not steps:
        return function.index.note(("demands", statement, node), lambda: _demands(statement, function, (), node))
    return _demands(statement, function, steps, node)


def _demands(
    statement: ast.stmt, function: FunctionInfo, steps: tuple[Step, ...], node: ast.expr | None
) -> frozenset[Formula] | None:
    functions = [function, *(step.record.function for step in steps)]
    scope = Scope(functions[-1])
    flags: Flags = {}
    needed: list[Formula] = []

    def need(asked: Iterator[Formula]) -> None:
        needed.extend(path_conditions.given_atoms(each, flags) for each in asked)

    for inner, step in zip(reversed(functions[:-1]), reversed(steps), strict=True):
        need(_conditions(step.record.statement, scope))
        need(_within(step.record.statement, step.record.node, scope))
        if isinstance(step.record, CallRecord) and _is_looked_up(step.record, inner):
            need(_found_by_name(step.record, inner.name, scope))
        shown = step.record if step.shows and isinstance(step.record, CallRecord) else None
        called, scope = scope, Scope(inner, shown, scope)
        flags = _flags_for(step.record, called, scope, flags)
    need(_conditions(statement, scope))
    if node is not None:
        need(_within(statement, node, scope))
    open_ones = [each for each in _conjuncts(needed) if each is not True]
    if any(each is False for each in open_ones) or not _can_hold(open_ones):
        return None
    return frozenset(each for each in open_ones if _asks_outermost(each))


def _flags_for(record: CallSite, caller: Scope, called: Scope, flags: Flags) -> Flags:
    """The object's attributes known in a call of its own method: `self.fast = True; return super().run()`.

    `flags` are those that the caller knows of its own object.
    """
    function, own = caller.function, caller.function.self_name
    func = record.call.func if isinstance(record, CallRecord) else record.node
    if own is None or called.function.self_name is None or not calls_own_method(func, function):
        return {}
    begins = f"{caller.depth}:{own}."
    known = {text.removeprefix(begins): value for text, value in flags.items() if text.startswith(begins)}
    at = record.statement
    change = function.index.note(("flags before", at), lambda: _changed_before(at, function))
    begins = f"{called.depth}:{called.function.self_name}."
    return {f"{begins}{name}": value for name, value in change.applied_to(known).items()}


class _Change(NamedTuple):
    """What statements do to the known attributes of an object: which stay known, and which have a new literal."""

    clears: bool
    unknown: frozenset[str]
    known: dict[str, ast.Constant]

    def applied_to(self, known: dict[str, ast.Constant]) -> dict[str, ast.Constant]:
        """The known attributes afterwards."""
        kept = {} if self.clears else {name: value for name, value in known.items() if name not in self.unknown}
        return {**kept, **self.known}


def _changed_before(statement: ast.stmt, function: FunctionInfo) -> _Change:
    """The change by all statements before this one, in its block and in the blocks around it."""
    own, blocks = function.self_name, []
    assert own is not None
    current: ast.stmt | None = statement
    while current is not None:
        place = function.index.places[current]
        blocks.append(place.block[: place.position])
        current = place.parent
    clears, unknown, known = False, set[str](), dict[str, ast.Constant]()
    for earlier in itertools.chain.from_iterable(reversed(blocks)):
        change = function.index.note(("flags", earlier), lambda: _change_by(earlier, function, own))  # noqa: B023
        clears, unknown = clears or change.clears, unknown | change.unknown
        known = change.applied_to(known)
    return _Change(clears, frozenset(unknown), known)


def calls_own_method(func: ast.expr, function: FunctionInfo) -> bool:
    """`self.run`, `super().run` in a method."""
    own = function.self_name
    owner = func.value if isinstance(func, ast.Attribute) else None
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super" and not owner.args
    return isinstance(owner, ast.Name) and own is not None and owner.id == own


def _change_by(statement: ast.stmt, function: FunctionInfo, own: str) -> _Change:
    """The change by one statement; a call of the object's own method may change any attribute."""
    bound: list[ast.Attribute] = []
    clears = False
    for node in subtree(statement):
        if isinstance(node, ast.Call):
            clears = clears or calls_own_method(node.func, function)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == own:
            bound += [node] if not isinstance(node.ctx, ast.Load) else []
    is_literal = isinstance(statement, ast.Assign) and statement.targets == bound
    value = statement.value if isinstance(statement, ast.Assign) and is_literal else None
    known = {bound[0].attr: value} if isinstance(value, ast.Constant) else {}
    return _Change(clears, frozenset(each.attr for each in bound), known)


def _asks_outermost(asked: Formula) -> bool:
    return any(OUTERMOST in text for atom in path_conditions.atoms(asked) for text in atom[1:])


def _conjuncts(formulas: list[Formula]) -> Iterator[Formula]:
    for each in formulas:
        if isinstance(each, tuple) and each[0] == "and":
            yield from _conjuncts(list(each[1:]))
        else:
            yield each


def _can_hold(formulas: list[Formula]) -> bool:
    """Whether the formulas do not contradict each other."""
    asked = [atom for each in formulas for atom in path_conditions.atoms(each)]
    counts = Counter(atom[:size] for atom in asked for size in range(1, len(atom) + 1))
    repeated = sorted({atom for atom in asked if counts[_thing(atom)] > 1})
    if not repeated or len(repeated) > bounds.MOST_OPEN_QUESTIONS:
        return True
    shared = [each for each in formulas if path_conditions.atoms(each) <= set(repeated)]
    for answers in itertools.product((False, True), repeat=len(repeated)):
        given = dict(zip(repeated, answers, strict=True))
        equal = [atom[1] for atom, answer in given.items() if answer and atom[0] == "="]
        if len(equal) == len(set(equal)) and all(path_conditions.holds(each, given) for each in shared):
            return True
    return False


def _thing(atom: tuple[str, ...]) -> tuple[str, ...]:
    """The subject of an atom; comparisons with different literals have the same subject."""
    return atom[:2] if atom[0] == "=" else atom


def _conditions(statement: ast.stmt, scope: Scope) -> Iterator[Formula]:
    """The conditions for a call of the function to reach the statement: the nearest ones, up to a limit."""
    return itertools.islice(_all_conditions(statement, scope), bounds.MOST_CONDITIONS)


def _all_conditions(statement: ast.stmt, scope: Scope) -> Iterator[Formula]:
    index = scope.function.index
    while True:
        place = index.places[statement]
        for position, earlier in _passed(place.block, index):
            if position >= place.position:
                break
            if isinstance(earlier, ast.Assert):
                yield _formula(earlier.test, earlier, scope)
            else:
                yield _goes_on([earlier], scope)
        parent = place.parent
        if parent is None:
            return
        if isinstance(parent, ast.If):
            test = _formula(parent.test, parent, scope)
            yield test if place.field == "body" else path_conditions.negated(test)
        elif isinstance(parent, ast.While) and place.field == "body" and isinstance(parent.test, ast.Constant):
            yield bool(parent.test.value)
        statement = parent


def _is_looked_up(record: CallRecord, function: FunctionInfo) -> bool:
    """Whether the callee may be a method that is looked up by name: it is called by another one."""
    if function.cls is None or not finding.has_calls_of(record.function.index, "getattr"):
        return False
    return last_name(record.call.func) != function.name


def _found_by_name(record: CallRecord, name: str, scope: Scope) -> Iterator[Formula]:
    """The condition for a callee that is looked up by name to be the function: `getattr(callback, event)(trainer)`."""
    yield path_conditions.found_by_name(record.call.func, name, record.statement, scope)


def _formula(test: ast.expr, statement: ast.stmt, scope: Scope) -> Formula:
    """The formula of a test; memoized if it depends on the function alone."""
    if scope.call is not None or scope.caller is not None:
        return path_conditions.formula(test, statement, scope)
    return scope.function.index.note(("formula", test), lambda: path_conditions.formula(test, statement, scope))


def _passed(block: list[ast.stmt], index: Index) -> list[tuple[int, ast.stmt]]:
    """The statements of a block, with their positions, that the program may leave the block at."""
    return index.note(
        ("passed", id(block)),
        lambda: [
            (position, each)
            for position, each in enumerate(block)
            if isinstance(each, (ast.Assert, *_LEAVES)) or _may_leave(each, index)
        ],
    )


def _within(statement: ast.stmt, inner: ast.expr, scope: Scope) -> Iterator[Formula]:
    """The conditions for an expression to be evaluated in its statement: `f(x) if flag else x`, `flag and f(x)`."""
    index = scope.function.index
    for test, taken in index.note(("within", statement, inner), lambda: list(_tests_within(statement, inner))):
        asked = path_conditions.formula(test, statement, scope)
        yield asked if taken else path_conditions.negated(asked)


def _tests_within(statement: ast.stmt, inner: ast.expr) -> Iterator[tuple[ast.expr, bool]]:
    """The tests in the statement that decide whether the expression is evaluated, and how they must turn out."""
    for node in parts(statement):
        if isinstance(node, ast.IfExp):
            if _holds(node.body, inner):
                yield node.test, True
            elif _holds(node.orelse, inner):
                yield node.test, False
        elif isinstance(node, ast.BoolOp):
            place = next((i for i, part in enumerate(node.values) if _holds(part, inner)), 0)
            yield from ((part, isinstance(node.op, ast.And)) for part in node.values[:place])


def asks_types(statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether a type test guards the statement in its function, or an expression in it."""
    index = function.index
    return index.note(
        ("asks types", statement),
        lambda: (
            any(_is_type_test(test, index) for test in _tests_in(statement)) or _is_under_type_test(statement, index)
        ),
    )


def _tests_in(statement: ast.stmt) -> Iterator[ast.expr]:
    """The tests that guard expressions in the statement."""
    for node in parts(statement):
        if isinstance(node, ast.IfExp):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield node
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def _is_under_type_test(statement: ast.stmt, index: Index) -> bool:
    """Whether a type test guards the statement; in a long chain of `elif`, each statement asks the one around it."""
    function = index.places[statement].function
    if function.is_module:
        index.reads.whole()
    known: dict[ast.stmt, bool] = index.note(("under type tests", function), lambda: index.reads.unheard(dict))
    unknown, current = [], statement
    while current not in known:
        unknown.append(current)
        parent = index.places[current].parent
        if parent is None:
            break
        current = parent
    for each in reversed(unknown):
        block, position, parent = index.places[each].block, index.places[each].position, index.places[each].parent
        tests = [
            test.test for at, test in _passed(block, index) if at < position and isinstance(test, (ast.If, ast.Assert))
        ]
        tests += [parent.test] if isinstance(parent, (ast.If, ast.While)) else []
        known[each] = (parent is not None and known[parent]) or any(_is_type_test(test, index) for test in tests)
    return known[statement]


def _is_type_test(test: ast.expr, index: Index) -> bool:
    """Whether a test asks for a type; many statements may stand under one test."""
    return index.note(
        ("type test", test),
        lambda: any(isinstance(node, ast.Call) and last_name(node.func) in _TYPE_TESTS for node in subtree(test)),
    )


def parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without its nested statements."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in children(node) if not isinstance(child, ast.stmt)]


def _holds(node: ast.expr, inner: ast.expr) -> bool:
    return any(each is inner for each in subtree(node))


def _may_leave(statement: ast.stmt, index: Index) -> bool:
    """Whether the program may leave the block inside the statement: an `if` or a `with` that contains a jump."""
    if not isinstance(statement, (ast.If, *_WITHS)):
        return False
    function = index.places[statement].function
    return statement in index.note(("leaving", function), lambda: _around_leaves(function))


def _around_leaves(function: FunctionInfo) -> set[ast.stmt]:
    """The statements that jump out of a block of the function, and those around them."""
    found: set[ast.stmt] = set()
    for statement in function.statements:
        current: ast.stmt | None = statement if isinstance(statement, _LEAVES) else None
        while current is not None and current not in found:
            found.add(current)
            current = function.index.places[current].parent
    return found


def _goes_on(block: list[ast.stmt], scope: Scope) -> Formula:
    """The condition for the program to reach the end of a block."""
    needed: list[Formula] = []
    for statement in block:
        if isinstance(statement, _LEAVES):
            return False
        if not _may_leave(statement, scope.function.index):
            continue
        if isinstance(statement, ast.If):
            test = path_conditions.formula(statement.test, statement, scope)
            taken = path_conditions.joined("and", [test, _goes_on(statement.body, scope)])
            other = path_conditions.joined("and", [path_conditions.negated(test), _goes_on(statement.orelse, scope)])
            needed.append(path_conditions.joined("or", [taken, other]))
        elif isinstance(statement, _WITHS):
            needed.append(_goes_on(statement.body, scope))
    return path_conditions.joined("and", needed)
