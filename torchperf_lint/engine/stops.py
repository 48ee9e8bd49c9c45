"""Tests that end a loop inside a step: convergence, or the end of all sequences."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.torch_api import BROKEN_NUMBERS
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.syntax.names import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo

_LEAVES = (ast.Break, ast.Return)
_TAKE = (ast.For, ast.AsyncFor, ast.comprehension)


def ends_loop(here: Link) -> bool:
    """Whether the part decides whether a loop goes on, by a tensor that the loop's pass has made or changed.

    Not a loop over batches, which takes the next batch whatever the last one gave.
    """
    statement, node = here.statement, here.node
    if node is None or not isinstance(statement, (ast.If, ast.While)):
        return False
    if not any(each is node for each in subtree(statement.test)):
        return False
    place = here.model.place_of(statement)
    if isinstance(statement, ast.While):
        loop: ast.stmt | None = statement
    else:
        loop = next(iter(place.loops()), None)
        *told, last = statement.body
        if not isinstance(last, _LEAVES) or statement.orelse or not all(isinstance(each, ast.Expr) for each in told):
            return False  # a branch that computes something is a choice of its own
    if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) or here.model.loop_info(loop).kind is LoopKind.BATCH:
        return False
    if _looks_for_broken_numbers(here.model, place.function, statement.test):
        return False
    changed = set(_changed(loop))
    return any(path in changed or path.partition(".")[0] in changed for path in _asked(here, place.function, node))


def _looks_for_broken_numbers(model: Model, function: FunctionInfo, test: ast.expr) -> bool:
    """Whether the test, or what a name in it is bound to, asks for NaN or infinity: a check, which no loop needs."""
    names = (each.id for each in subtree(test) if isinstance(each, ast.Name))
    parts = [test, *(bound for name in names for bound in model.bindings(function, name))]
    calls = (each for part in parts for each in subtree(part) if isinstance(each, ast.Call))
    return any(last_name(each.func) in BROKEN_NUMBERS for each in calls)


def _asked(here: Link, function: FunctionInfo, node: ast.expr) -> Iterator[str]:
    """The names and paths of tensors on the device in an expression."""
    for each in subtree(node):
        if isinstance(each, (ast.Name, ast.Attribute)):
            path, value = dotted(each), here.model.value_in(function, each)
            if path is not None and value.holds_tensors and value.device.on_accelerator:
                yield path


def _changed(loop: ast.stmt) -> Iterator[str]:
    """The names and paths that a loop binds or writes to, without what loops take: an element is no result."""
    nodes = list(subtree(loop))
    taken = {part for each in nodes if isinstance(each, _TAKE) for part in subtree(each.target)}
    for each in nodes:
        path = None if each in taken else _written(each)
        if path is not None:
            yield path


def _written(node: ast.AST) -> str | None:
    """The name or path that a node binds, writes into (`x[0] = 1`, `out=x`), or changes in place (`x.add_()`)."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        return dotted(node)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return dotted(node.value)
    if isinstance(node, ast.keyword) and node.arg == "out":
        return dotted(node.value)
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Attribute) and called.attr.endswith("_") and not called.attr.endswith("__"):
        return dotted(called.value)
    return None
