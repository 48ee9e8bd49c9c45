"""How a loop comes to an expression in its passes: by which loops and conditions, as the clauses of a comprehension."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.containers import CHANGE, CHANGE_ARGUMENTS
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_DEFERRED = (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.Yield, ast.YieldFrom, ast.Await)
_LEAVE = (ast.Break, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_BIND_OTHERWISE = (
    *(ast.Try, ast.NamedExpr, ast.Match, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef),
    *(ast.ClassDef, ast.Global, ast.Nonlocal),
)
_BRANCHES = (ast.If, ast.For)


class _Inside(NamedTuple):
    """What stands in a loop: how often it binds each name, where it first takes it, and what it stores to or fills."""

    ends_or_binds: bool  # by a jump out of it, or in a way that is not looked into
    stored: Counter[str]
    first_load: dict[str, tuple[int, int]]
    changed: list[tuple[str, str | None]]

    @classmethod
    def of(cls, loop: ast.For) -> _Inside:
        """All of it, from one walk."""
        nodes = list(subtree(loop))
        names = [each for each in nodes if isinstance(each, ast.Name)]
        loads: dict[str, tuple[int, int]] = {}
        for each in names:
            if isinstance(each.ctx, ast.Load):
                place = each.lineno, each.col_offset
                loads[each.id] = min(place, loads.get(each.id, place))
        ends = any(isinstance(each, (*_LEAVE, *_BIND_OTHERWISE)) for each in nodes)
        stored = Counter(each.id for each in names if not isinstance(each.ctx, ast.Load))
        return cls(ends, stored, loads, list(_changed(loop)))


class Condition(NamedTuple):
    """A test, and whether it has to hold or to fail."""

    test: ast.expr
    holds: bool


Clause = ast.For | Condition


class Passes(NamedTuple):
    """A loop, and the clauses, outermost first, by which its passes come to an expression, each time once.

    `names` has what a pass binds on its way, and uses in the clauses and in the expression.
    """

    loop: ast.For
    clauses: tuple[Clause, ...]
    names: dict[str, ast.expr]

    @property
    def expressions(self) -> list[ast.expr]:
        """What the clauses evaluate, and what the names stand for."""
        return [*map(_evaluated, self.clauses), *self.names.values()]

    @property
    def targets(self) -> set[str]:
        """The names that the clauses bind."""
        return {name for each in self.clauses if isinstance(each, ast.For) for name in _names(each.target)}


def passes_to(model: Model, site: Site, made: ast.expr) -> list[Passes]:
    """The loops whose passes come to the site only by such clauses and leave `made` as it is, innermost first.

    `made` is an expression of the site; what the clauses and it depend on is bound before the loop, by the clauses, or
    by one plain assignment on the way.
    """
    function, node = model.function_of(site), model.ast_of(site.node)
    statement, nearest = model.statement_of(site.node), next(iter(model.place(site.node).loops()), None)
    if not isinstance(nearest, ast.For) or model.loop_info(nearest).kind is not LoopKind.OTHER:
        return []
    inner = None if node is None else _conditions_within(function, node, statement)
    if inner is None:
        return []
    found: list[Passes] = []
    clauses: list[Clause] = inner  # innermost first
    bound: dict[str, ast.expr] = {}
    for place in model.place_of(statement).outwards():
        guards = _guards(place.before)
        bound = {**_assigned(place.before), **bound}
        parent = place.parent
        if guards is None or not isinstance(parent, _BRANCHES):
            break
        clauses += reversed(guards)
        if isinstance(parent, ast.If):
            clauses.append(Condition(parent.test, place.field == "body"))
            continue
        if place.field != "body" or model.loop_info(parent).kind is not LoopKind.OTHER:
            break
        if any(isinstance(each, ast.ClassDef) for each in model.place_of(parent).around()):
            break  # a comprehension does not see the names of a class
        clauses.append(parent)
        passes = _repeated(model, Passes(parent, tuple(reversed(clauses)), {}), made, bound, _rebound(statement))
        if passes is None:
            break
        found.append(passes)
    return found


def _evaluated(clause: Clause) -> ast.expr:
    return clause.test if isinstance(clause, Condition) else clause.iter


def _assigned(before: list[ast.stmt]) -> dict[str, ast.expr]:
    """The names that statements bind, each by itself, with the expressions."""
    return {
        each.targets[0].id: each.value
        for each in before
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name)
    }


def conditions_within(function: FunctionInfo, node: ast.expr) -> list[ast.expr]:
    """The conditions within its statement under which an expression is evaluated."""
    statement: ast.AST | None = node
    while statement is not None and not isinstance(statement, ast.stmt):
        statement = function.parents.get(statement)
    found = None if statement is None else _conditions_within(function, node, statement)
    return [each.test for each in found or () if isinstance(each, Condition)]


def _conditions_within(function: FunctionInfo, node: ast.expr, statement: ast.stmt) -> list[Clause] | None:
    """What has to hold within the statement for the node to be evaluated, innermost first; None if it is put off."""
    found: list[Clause] = []
    current: ast.AST = node
    while current is not statement:
        parent = function.parents.get(current)
        if parent is None or isinstance(parent, _DEFERRED):
            return None
        if isinstance(parent, ast.IfExp) and current is not parent.test:
            found.append(Condition(parent.test, current is parent.body))
        elif isinstance(parent, ast.BoolOp):
            before = parent.values[: parent.values.index(current)]  # type: ignore[arg-type]
            found += [Condition(each, isinstance(parent.op, ast.And)) for each in reversed(before)]
        elif isinstance(parent, ast.Compare) and current in parent.comparators[1:]:
            return None
        current = parent
    plain = isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.Assert))
    return found if plain else None


def _guards(before: list[ast.stmt]) -> list[Clause] | None:
    """What has to fail in statements `if test: continue` so that the pass goes on; None if another one may end it."""
    found: list[Clause] = []
    for statement in before:
        jumps = any(isinstance(each, (ast.Continue, *_LEAVE)) for each in subtree(statement))
        if not jumps:
            continue
        if not isinstance(statement, ast.If) or statement.orelse or not isinstance(statement.body[0], ast.Continue):
            return None
        found.append(Condition(statement.test, holds=False))
    return found


def _rebound(statement: ast.stmt) -> str | None:
    """`v` of `v = v.item()`: from there on, the name of what a loop walks has the number."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else None


def _repeated(
    model: Model, passes: Passes, made: ast.expr, bound: dict[str, ast.expr], rebound: str | None
) -> Passes | None:
    """The passes with the names they need, if their clauses give `made` for each time that the loop comes to it.

    `bound` has what is assigned on the way, `rebound` is the name that the site's own statement binds.
    """
    targets, inside = passes.targets, model.remember(("inside", passes.loop), lambda: _Inside.of(passes.loop))
    if inside.ends_or_binds:
        return None
    stored = inside.stored
    if rebound in targets:
        stored = stored - Counter([rebound])
    names: dict[str, ast.expr] = {}
    needed = set[str]().union(*map(_names, (made, *passes.expressions))) & (set(stored) - targets)
    while needed:
        name = needed.pop()
        if stored[name] != 1 or name not in bound or not _is_used_behind(inside, name, bound[name]):
            return None
        names[name] = bound[name]
        needed |= (_names(bound[name]) & (set(stored) - targets)) - set(names)
    passes = passes._replace(names=names)
    if any(stored[each] != 1 for each in targets) or not _binds_before_use(passes):
        return None
    evaluated = [made, *passes.expressions]
    if any(model.may_be_rebound(name) for each in evaluated for name in _names(each)):
        return None
    walked = _walked_entries(passes)
    others = [each for each in evaluated if each not in walked.values()]
    paths = {path for each in others for path in paths_in(each)}
    for path, key in inside.changed:
        if any(_overlap(path, other) for other in paths):
            return None
        if any(_overlap(path, dotted_owner(call)) and (path, key) != known for known, call in walked.items()):
            return None
    return passes


def dotted_owner(call: ast.Call) -> str:
    """`parts` of `parts.items()`."""
    return dotted(call.func.value) or "" if isinstance(call.func, ast.Attribute) else ""


def _is_used_behind(inside: _Inside, name: str, made: ast.expr) -> bool:
    """Whether a pass uses a name only behind its assignment, so that it never has what an earlier pass bound to it."""
    end = (made.end_lineno or made.lineno, made.end_col_offset or 0)
    return inside.first_load.get(name, end) >= end


def _binds_before_use(passes: Passes) -> bool:
    """Whether each clause uses only those targets that the clauses before it bind, and all targets are names."""
    known: set[str] = set()
    targets = passes.targets
    for clause in passes.clauses:
        used = _names(_evaluated(clause))
        while more := {inner for each in used & set(passes.names) for inner in _names(passes.names[each])} - used:
            used |= more
        if not used & targets <= known:
            return False
        if isinstance(clause, ast.For):
            if not _binds_names(clause.target):
                return False
            known |= _names(clause.target)
    return True


def _walked_entries(passes: Passes) -> dict[tuple[str, str], ast.Call]:
    """By path and key, the calls `parts.items()` that a clause walks: a pass may set the entry that it has taken."""
    found: dict[tuple[str, str], ast.Call] = {}
    for each in passes.clauses:
        if not isinstance(each, ast.For) or not isinstance(each.target, ast.Tuple):
            continue
        call, key = each.iter, each.target.elts[0]
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "items":
            path = dotted(call.func.value)
            if path is not None and isinstance(key, ast.Name):
                found[path, key.id] = call
    return found


def _changed(loop: ast.For) -> Iterator[tuple[str, str | None]]:
    """The paths that the loop stores to or fills, and the name of the key where it stores one entry."""
    for node in subtree(loop):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
            whole = node.value if isinstance(node, ast.Subscript) else node
            key = node.slice.id if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) else None
            path = _path(whole)
            if path is not None:
                yield path, key
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, path = node.func.attr, _path(node.func.value)
            writes = name in CHANGE or (name.endswith("_") and not name.endswith("__"))
            if writes and path is not None:
                yield path, None
            if name in CHANGE_ARGUMENTS:
                yield from ((path, None) for each in node.args for path in paths_in(each))


def paths_in(node: ast.expr) -> Iterator[str]:
    """The names and longest paths that an expression reads, up to a subscript or a call: `p.grad` of `p.grad[0]`."""
    path = dotted(node)
    if path is not None:
        yield path
        return
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.expr):
            is_method = isinstance(node, ast.Call) and each is node.func and isinstance(each, ast.Attribute)
            yield from paths_in(each.value if is_method and isinstance(each, ast.Attribute) else each)
        elif isinstance(each, ast.keyword):
            yield from paths_in(each.value)


def _path(node: ast.expr) -> str | None:
    """`x` of `x[i].y[0]`."""
    while isinstance(node, (ast.Subscript, ast.Call)) or (isinstance(node, ast.Attribute) and dotted(node) is None):
        node = node.func if isinstance(node, ast.Call) else node.value
    return dotted(node)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in subtree(node) if isinstance(each, ast.Name)}


def _binds_names(target: ast.expr) -> bool:
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return all(isinstance(each, ast.Name) or (each is not target and _binds_names(each)) for each in parts)
