"""Tests for another device than the accelerator: on a GPU such a branch is never taken."""

from __future__ import annotations

import ast

from torchperf_lint.model.syntax.device_tests import device_text
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.syntax.tree import subtree

_OTHER_DEVICES = frozenset({"cpu", "mps", "xla", "meta"})
_SAYS_CUDA = frozenset("is_cuda use_cuda has_cuda cuda_available use_gpu has_gpu gpu_available".split())
_SAYS_OTHER_DEVICE = frozenset("is_cpu use_cpu cpu_only no_cuda is_mps is_mkldnn is_xla is_meta use_mps".split())
_FINDS_OTHER_DEVICE = ("torch.backends.mps.is_available", "torch.mps.is_available")


def is_for_other_device(test: ast.expr, taken: bool) -> bool:
    """`x.device.type == "cpu"`, `not x.is_cuda`, `not use_cuda`: on a GPU such a branch is never taken."""
    if isinstance(test, ast.Attribute):
        return (test.attr in _SAYS_CUDA and not taken) or (test.attr in _SAYS_OTHER_DEVICE and taken)
    if isinstance(test, ast.Call):
        path = dotted(test.func)
        return (path == "torch.cuda.is_available" and not taken) or (path in _FINDS_OTHER_DEVICE and taken)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    sides = [test.left, test.comparators[0]]
    if isinstance(test.ops[0], (ast.In, ast.NotIn)) and isinstance(sides[1], (ast.Tuple, ast.List, ast.Set)):
        if not _names_device(sides[0]) or not sides[1].elts:
            return False
        sides = sides[1].elts
        others = all(isinstance(side, ast.Constant) and side.value in _OTHER_DEVICES for side in sides)
        return others and taken == isinstance(test.ops[0], ast.In)
    if isinstance(test.ops[0], (ast.In, ast.NotIn)):
        text = device_text(sides[0]) if _is_device_as_text(sides[1]) else None
        never = ast.NotIn if text == "cuda" else ast.In
        return (text == "cuda" or text in _OTHER_DEVICES) and taken == isinstance(test.ops[0], never)
    if isinstance(sides[0], ast.Call) and dotted(sides[0].func) == "torch.cuda.device_count":
        return _says_zero(test.ops[0], sides[1], taken)
    if any(dotted(side) == "torch._mkldnn" for side in sides):
        return taken == isinstance(test.ops[0], (ast.Eq, ast.Is))
    if not any(_names_device(side) for side in sides):
        return False
    named = {text for text in map(device_text, sides) if text is not None}
    if isinstance(test.ops[0], (ast.Eq, ast.NotEq)) and named:
        is_cuda = "cuda" in named
        return (bool(named & _OTHER_DEVICES) or is_cuda) and taken == (isinstance(test.ops[0], ast.Eq) != is_cuda)
    return False


def _is_device_as_text(node: ast.expr) -> bool:
    """`str(x.device)`, `x.device.type`, `device`: one device, and no list of them."""
    if isinstance(node, ast.Call) and last_name(node.func) == "str" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Attribute) and node.attr == "type":
        node = node.value
    return (last_name(node) or "").lower().endswith("device")


def _says_zero(operator: ast.cmpop, count: ast.expr, taken: bool) -> bool:
    """Whether `n <operator> count`, true or not, implies that n is zero."""
    value = count.value if isinstance(count, ast.Constant) else None
    implied: dict[tuple[object, object], bool] = {
        (ast.Eq, 0): True,
        (ast.Lt, 1): True,
        (ast.NotEq, 0): False,
        (ast.Gt, 0): False,
        (ast.GtE, 1): False,
    }
    return implied.get((type(operator), value)) is taken


def _names_device(node: ast.expr) -> bool:
    """`device`, `x.device.type`, `args.device`, `str(device)`, judged by name alone."""
    return any(
        "device" in (last_name(each) or "").lower()
        for each in subtree(node)
        if isinstance(each, (ast.Name, ast.Attribute))
    )
