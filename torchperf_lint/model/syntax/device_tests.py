"""Tests for where a tensor is: `x.is_cuda`, `x.device.type == "cpu"`, `device == torch.device("cuda")`."""

from __future__ import annotations

import ast
from typing import NamedTuple

from torchperf_lint.model.syntax.index import dotted, last_name

_TRUTHS = {"is_cuda": True, "is_cpu": False}
_NAMES = {"cuda": True, "cpu": False}


class DeviceTest(NamedTuple):
    """What a test asks: the tensor or device, and the test's truth where that is on a GPU.

    On the CPU it has the opposite truth.
    """

    subject: ast.expr
    on_accelerator: bool


def device_test(test: ast.expr) -> DeviceTest | None:
    """What a test without `and`, `or` and `not` asks; None if it asks for no device."""
    if isinstance(test, ast.Attribute):
        truth = _TRUTHS.get(test.attr)
        return None if truth is None else DeviceTest(test.value, truth)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        subject = _device_asked(test.left)
        truth = _NAMES.get(device_text(test.comparators[0]) or "")
        if subject is not None and truth is not None:
            return DeviceTest(subject, truth is isinstance(test.ops[0], ast.Eq))
    return None


def truth_on_cuda(test: ast.expr) -> bool | None:
    """The truth of a test, without `and`, `or` and `not`, where CUDA is used; None if that does not decide it."""
    if isinstance(test, ast.Call):
        return True if f".{dotted(test.func)}".endswith(".cuda.is_available") else None
    if isinstance(test, (ast.Name, ast.Attribute)):
        name = (last_name(test) or "").lower()
        return True if name == "use_cuda" else _TRUTHS.get(name) if isinstance(test, ast.Attribute) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.NotEq)):
        return None
    text, is_equal = device_text(test.comparators[0]), isinstance(test.ops[0], ast.Eq)
    if text is None or _device_asked(test.left) is None:
        return None
    if isinstance(test.left, ast.Attribute) and test.left.attr == "type":
        is_device = text in _NAMES or last_name(test.left.value) == "device"
        return (text == "cuda") is is_equal if is_device else None
    return not is_equal if text == "cpu" else None  # `device == "cuda"` is false for "cuda:0"


def device_text(node: ast.expr) -> str | None:
    """`"cpu"`, also of `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "device" and node.args:
        node = node.args[0]
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None  # type: ignore[attr-defined]


def _device_asked(node: ast.expr) -> ast.expr | None:
    """The device, or its tensor, of `x.device.type`, `x.device`, `device` and `str(device)`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "str" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return node.value
    return node if last_name(node) == "device" else None
