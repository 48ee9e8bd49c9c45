"""Tests that hold once, or after thousands of steps: what they guard is no training, even if it takes a step."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.model.frequency.sampling_guards import SHORT_PERIOD
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Place


_OTHERWISE = re.compile(r"eval|valid|(?:^|_)val(?:_|$)|log|save|print|report|display|plot|probe|check", re.IGNORECASE)
"""Names of periods that are not those of training."""


def is_rare(place: Place) -> bool:
    """Whether a test that has to hold around a statement in its function holds once, or after thousands of steps."""
    tests = (each.parent.test for each in place.outwards() if isinstance(each.parent, ast.If) and each.field == "body")
    return any(_is_rarely_so(node) for test in tests for node in subtree(test))


def has_long_period(test: ast.expr) -> bool:
    """Whether a test asks for a period of many steps: `step % 5000`, `step % cfg.eval_every`."""
    return any(map(_is_long_period, subtree(test)))


def _is_long_period(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    return _is_large(node.right) or bool(_OTHERWISE.search((dotted(node.right) or "").rpartition(".")[2]))


def _is_rarely_so(node: ast.AST) -> bool:
    """A long period, `step == 1000`, `step == args.reset_at`."""
    if _is_long_period(node):
        return True
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return False
    other = node.comparators[0]
    if isinstance(other, ast.Constant):
        return _is_large(other)
    return dotted(node.left) is not None and not isinstance(other, ast.BinOp)


def _is_large(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > SHORT_PERIOD
