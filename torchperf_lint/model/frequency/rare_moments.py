"""Tests that hold once, or after thousands of steps: what they guard is no training, even if it takes a step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.frequency.sampling_guards import SHORT_PERIOD
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Place


def is_rare(place: Place) -> bool:
    """Whether a test around a statement in its function has a large number, `if step % 5000 == 0`, or holds once."""
    tests = (each.parent.test for each in place.outwards() if isinstance(each.parent, ast.If))
    return any(_is_large(node) or _holds_once(node) for test in tests for node in subtree(test))


def _is_large(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > SHORT_PERIOD


def _holds_once(node: ast.AST) -> bool:
    """`step == args.reset_at`."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return False
    return dotted(node.left) is not None and not isinstance(node.comparators[0], ast.BinOp)
