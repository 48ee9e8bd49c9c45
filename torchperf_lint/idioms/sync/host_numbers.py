"""Numbers of the host, and what they give together with settings that no file shows: `ptr % self.hparams.size`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.conventions import SETTINGS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.values import Value


def is_host_number(node: ast.expr, value_of: Callable[[ast.expr], Value]) -> bool:
    """Whether an expression is a number, or arithmetic of at least one number and settings."""
    if value_of(node).kind is Kind.NUMBER:
        return True
    if not isinstance(node, ast.BinOp):
        return False
    sides = (node.left, node.right)
    numbers = [each for each in sides if is_host_number(each, value_of)]
    return bool(numbers) and all(each in numbers or _is_setting(each, value_of) for each in sides)


def _is_setting(node: ast.expr, value_of: Callable[[ast.expr], Value]) -> bool:
    """`self.hparams.size`, `cfg.size`, of which no value shows that it is a tensor."""
    owners = (dotted(node) or "").split(".")[:-1]
    return not SETTINGS.isdisjoint(owners) and not value_of(node).holds_tensors
