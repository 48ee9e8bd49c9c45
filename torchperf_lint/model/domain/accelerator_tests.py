"""Tests for whether, or which, accelerator is used, by their names: `if use_cuda`, `if args.device == "cpu"`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.conventions import ACCELERATOR_NAMES
from torchperf_lint.model.domain.values import Device, text_names
from torchperf_lint.model.syntax.device_tests import truth_on_cuda
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Place

_ACCELERATOR_NAME = re.compile(ACCELERATOR_NAMES)
_SWAPPED = {"body": "orelse", "orelse": "body", None: None}
_DENIES = re.compile(r"(^|[._])(no|not|without|disable|skip)_|cpu")


def asks_about_accelerator(test: ast.expr) -> bool:
    """Whether the condition tests if (or which) accelerator is used."""
    for node in subtree(test):
        text = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        if text is not None and _ACCELERATOR_NAME.search(text.lower()):
            return True
        if isinstance(node, ast.Constant) and text_names(node.value) is Device.CUDA:
            return True
    return False


def arm_on_accelerator(test: ast.expr) -> str | None:
    """The field of an `if` whose statements run if an accelerator is used: `body` or `orelse`; None if it asks else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _SWAPPED[arm_on_accelerator(test.operand)]
    if isinstance(test, ast.BoolOp):
        arms = {arm_on_accelerator(each) for each in test.values if asks_about_accelerator(each)}
        return arms.pop() if len(arms) == 1 else None
    if not asks_about_accelerator(test):
        return None
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        names_host, operator = _names_host(test), test.ops[0]
        if isinstance(operator, (ast.NotEq, ast.IsNot, ast.NotIn)):
            return "body" if names_host else "orelse"
        return "orelse" if names_host and not isinstance(operator, (ast.Gt, ast.GtE)) else "body"
    path = dotted(test.func if isinstance(test, ast.Call) else test) or ""
    return "orelse" if _DENIES.search(path.lower()) else "body"


def is_for_host(place: Place) -> bool:
    """Whether a statement never runs where CUDA is used: in the `else` of `if x.is_cuda`."""
    return isinstance(place.parent, ast.If) and _arm_without_cuda(place.parent.test) == place.field


def parts_on_accelerator(value: ast.expr) -> tuple[ast.expr, ...]:
    """`g` of `g if x.is_cuda else f`; both parts of a choice by another test, and any other value as it is."""
    if not isinstance(value, ast.IfExp):
        return (value,)
    arm = _arm_without_cuda(value.test)
    return tuple(part for field, part in (("body", value.body), ("orelse", value.orelse)) if field != arm)


def _arm_without_cuda(test: ast.expr) -> str | None:
    """The field of an `if` whose statements never run where CUDA is used; None if both may."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _SWAPPED[_arm_without_cuda(test.operand)]
    if isinstance(test, ast.BoolOp):
        arm = "body" if isinstance(test.op, ast.And) else "orelse"
        return arm if arm in map(_arm_without_cuda, test.values) else None
    truth = truth_on_cuda(test)
    return None if truth is None else "orelse" if truth else "body"


def _names_host(test: ast.expr) -> bool:
    """Whether all literals in a comparison stand for the host: `"cpu"`, None, no index or count of devices."""
    parts = list(subtree(test))
    named = [each.value for each in parts if isinstance(each, ast.Constant)]
    is_negative = any(isinstance(each, ast.USub) for each in parts)
    return bool(named) and all(not each or is_negative or text_names(each) is Device.CPU for each in named)
