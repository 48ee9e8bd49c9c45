"""Code that fills a cache: it stands in code that runs in every step, but runs only until its result is stored."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.containers import EMPTY
from torchperf_lint.model import bounds
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo, Loop, Place

_LEAVES = (ast.Return, ast.Continue)
_ADDS = ("append", "add_module")


def filled_once(model: Model, site: Site) -> bool:
    """Whether the site fills an attribute or entry under a guard that tests for it, here or at the caller."""
    function = model.function_of(site)
    hot_path = model.hot_path(site)
    loop = None if hot_path is None else hot_path.loop
    return _fills(model, model.statement_of(site.node), function, frozenset(), (function,), loop)


def fills_table(model: Model, site: Site) -> bool:
    """Whether the site's result is kept under a key that is asked for first: `if key not in self.table: ...`."""
    statement = model.statement_of(site.node)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Constant):
        return False
    asked = f"{ast.unparse(target.slice)} not in {ast.unparse(target.value)}"
    return any(ast.unparse(test) == asked for test in guards(statement, model.function_of(site)))


def _fills(
    model: Model,
    statement: ast.stmt,
    function: FunctionInfo,
    kept: frozenset[str],
    way: tuple[FunctionInfo, ...],
    hot: Loop | None,
) -> bool:
    kept |= frozenset(_kept_by(statement, function))
    repeats = hot.test if isinstance(hot, ast.While) else None  # its test is no guard
    tests = [test for test in guards(statement, function) if test is not repeats]
    if any(_speaks_of(node, path) for test in tests for node in subtree(test) for path in kept):
        return True
    if _is_beside_filling(statement, function):
        return True
    if len(way) > bounds.MOST_CALLS_TO_CACHE:
        return False
    callers = [record for record in model.callers(function) if record.function not in way]
    hot_callers = [record for record in callers if runs_in_every_step(model, record)]
    return bool(hot_callers) and all(
        _fills(model, each.statement, each.function, kept, (*way, each.function), hot) for each in hot_callers
    )


def runs_in_every_step(model: Model, record: CallRecord) -> bool:
    """Whether a call, in any file of the project, runs in every step."""
    return model.home(record.function).hot_path_of(record.statement) is not None


def _is_beside_filling(statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether a branch around it fills what it has asked for: `if key not in a: a[key] = f(); b[key] = g()`."""
    for place in function.place_of(statement).outwards():
        if isinstance(place.parent, ast.If) and place.field == "body":
            stores = (target for each in place.block if isinstance(each, ast.Assign) for target in each.targets)
            filled = {_container(each) for each in stores if isinstance(each, (ast.Attribute, ast.Subscript))}
            if any(_asks_for_absence(place.parent.test, path) for path in filled):
                return True
    return False


def _asks_for_absence(test: ast.expr, path: str) -> bool:
    """`key not in path`, `path is None` or `not path`."""
    if isinstance(test, ast.Compare):
        compared = test.comparators[-1] if isinstance(test.ops[-1], ast.NotIn) else test.left
        return isinstance(test.ops[-1], (ast.NotIn, ast.Is)) and ast.unparse(compared) == path
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return is_not and ast.unparse(test.operand) == path  # type: ignore[attr-defined]


def _kept_by(statement: ast.stmt, function: FunctionInfo) -> Iterator[str]:
    """The attributes and containers that store the statement's result, directly or through a name."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _grown(statement.value, function)
    for target in targets:
        if not isinstance(target, ast.Name):
            yield _container(target)
    for name in names:
        yield from _holders(function).get(name, ())


def _holders(function: FunctionInfo) -> dict[str, list[str]]:
    """The attributes and containers that a name is stored in, by that name: `self.mask` by `mask`."""
    return function.note(("holders", function), lambda: _held(function))


def _held(function: FunctionInfo) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            targets = [target for target in node.targets if not isinstance(target, ast.Name)]
            found.setdefault(node.value.id, []).extend(map(_container, targets))
        elif isinstance(node, ast.Call):
            for each in node.args[-1:]:
                if isinstance(each, ast.Name):
                    found.setdefault(each.id, []).extend(_grown(node, function))
    return found


def _grown(call: ast.Call, function: FunctionInfo) -> Iterator[str]:
    """How a test asks for what `self.blocks.append(x)` stores: by length, or as a member; nothing if it is emptied."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _ADDS or not call.args:
        return
    key, owner = call.args[0], ast.unparse(func.value)
    if func.attr == "add_module" and isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield f"{owner}.{key.value}"
    if isinstance(func.value, ast.Attribute) and not _is_emptied(function, owner):
        yield from (f"len({owner})", f"not {owner}", f"not in {owner}")


def _is_emptied(function: FunctionInfo, path: str) -> bool:
    """Whether the function binds the container anew, or takes something out of it."""
    return any(
        isinstance(node, ast.Attribute)
        and (
            (not isinstance(node.ctx, ast.Load) and dotted(node) == path)
            or (node.attr in EMPTY and dotted(node.value) == path)
        )
        for node in function.nodes
    )


def _container(target: ast.expr) -> str:
    return ast.unparse(target.value if isinstance(target, ast.Subscript) else target)


def guards(statement: ast.stmt, function: FunctionInfo) -> Iterator[ast.expr]:
    """The tests that guard the statement: of an `if` or `while` around it, or of an `if` that leaves before it."""
    for place in function.place_of(statement).outwards():
        yield from (test for position, test in _leaving(function, place) if position < place.position)
        if isinstance(place.parent, (ast.If, ast.While)):
            yield place.parent.test


def _leaving(function: FunctionInfo, place: Place) -> list[tuple[int, ast.expr]]:
    """The tests in the place's block that leave the function or the pass, each with its position."""
    return function.note(
        ("leaving", id(place.block)),
        lambda: [
            (position, each.test)
            for position, each in enumerate(place.block)
            if isinstance(each, ast.If) and _may_leave(each.body[-1])
        ],
    )


def _may_leave(last: ast.stmt) -> bool:
    """Whether the last statement of a block leaves, perhaps after another test."""
    return isinstance(last, _LEAVES) or (isinstance(last, ast.If) and _may_leave(last.body[-1]))


def _speaks_of(node: ast.AST, kept: str) -> bool:
    """Whether the node is `self.mask`, its name in `hasattr(self, "mask")`, or asks for it as `_grown` says."""
    if isinstance(node, ast.Constant):
        return node.value == kept.rpartition(".")[2]
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[-1], ast.NotIn) and f"not in {ast.unparse(node.comparators[-1])}" == kept
    if isinstance(node, (ast.Subscript, ast.Call, ast.UnaryOp)):
        return ast.unparse(node) == kept
    return isinstance(node, (ast.Attribute, ast.Name)) and dotted(node) == kept
