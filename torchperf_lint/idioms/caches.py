"""Code that fills a cache: it stands in code that runs in every step, but runs only until its result is stored."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo, Place

_LEAVES = (ast.Return, ast.Continue)


def filled_once(model: Model, site: Site) -> bool:
    """Whether the site fills an attribute or entry under a guard that tests for it, here or at the caller."""
    function = model.function_of(site)
    return _fills(model, model.statement_of(site.node), function, frozenset(), (function,))


def _fills(
    model: Model, statement: ast.stmt, function: FunctionInfo, kept: frozenset[str], way: tuple[FunctionInfo, ...]
) -> bool:
    kept |= frozenset(_kept_by(statement, function))
    if any(_speaks_of(node, path) for test in guards(statement, function) for node in subtree(test) for path in kept):
        return True
    if len(way) > bounds.MOST_CALLS_TO_CACHE:
        return False
    callers = [record for record in model.callers(function) if record.function not in way]
    hot = [record for record in callers if runs_in_every_step(model, record)]
    return bool(hot) and all(_fills(model, each.statement, each.function, kept, (*way, each.function)) for each in hot)


def runs_in_every_step(model: Model, record: CallRecord) -> bool:
    """Whether a call, in any file of the project, runs in every step."""
    return model.home(record.function).hot_path_of(record.statement) is not None


def _kept_by(statement: ast.stmt, function: FunctionInfo) -> Iterator[str]:
    """The attributes and containers that store the statement's result, directly or through a name."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    for target in targets:
        if not isinstance(target, ast.Name):
            yield _container(target)
    for name in names:
        yield from map(_container, _holders(function).get(name, ()))


def _holders(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """The attributes and containers assigned from a name, by that name: `self.mask` by `mask`."""
    return function.note(("holders", function), lambda: _held(function))


def _held(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            targets = [target for target in node.targets if not isinstance(target, ast.Name)]
            found.setdefault(node.value.id, []).extend(targets)
    return found


def _container(target: ast.expr) -> str:
    return ast.unparse(target.value if isinstance(target, ast.Subscript) else target)


def guards(statement: ast.stmt, function: FunctionInfo) -> Iterator[ast.expr]:
    """The tests that guard the statement: of an `if` around it, or of one that leaves the function before it."""
    for place in function.place_of(statement).outwards():
        yield from (test for position, test in _leaving(function, place) if position < place.position)
        if isinstance(place.parent, ast.If):
            yield place.parent.test


def _leaving(function: FunctionInfo, place: Place) -> list[tuple[int, ast.expr]]:
    """The tests in the place's block that leave the function or the pass, each with its position."""
    return function.note(
        ("leaving", id(place.block)),
        lambda: [
            (position, each.test)
            for position, each in enumerate(place.block)
            if isinstance(each, ast.If) and isinstance(each.body[-1], _LEAVES)
        ],
    )


def _speaks_of(node: ast.AST, kept: str) -> bool:
    """Whether the node is `self.mask`, or its name in `hasattr(self, "mask")`."""
    if isinstance(node, ast.Constant):
        return node.value == kept.rpartition(".")[2]
    if isinstance(node, ast.Subscript):
        return ast.unparse(node) == kept
    return isinstance(node, (ast.Attribute, ast.Name)) and dotted(node) == kept
