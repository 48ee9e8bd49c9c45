"""Expressions that are Python numbers on every path: neither NumPy's, nor merely annotated as numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import FrequencyQuestions, ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo

_GIVES_NUMBERS = ("time.time", "time.perf_counter", "time.monotonic")
_COUNTS = frozenset("item numel nelement dim ndimension element_size".split())


def is_certain(
    node: ast.expr,
    function: FunctionInfo,
    inference: ValueQuestions,
    hot_path: FrequencyQuestions,
    seen: frozenset[str] = frozenset(),
) -> bool:
    """Whether the expression in the function is a Python number on every path.

    A parameter's default or annotation is no proof: a caller may pass a tensor or a NumPy number, which
    brings its dtype along. `seen` are names whose bindings are being checked.
    """

    def again(inner: ast.expr) -> bool:
        return is_certain(inner, function, inference, hot_path, seen)

    if isinstance(node, ast.UnaryOp):
        return again(node.operand)
    if isinstance(node, ast.BinOp):
        return again(node.left) and again(node.right)
    if isinstance(node, ast.IfExp):
        return again(node.body) and again(node.orelse)
    if isinstance(node, ast.Call):
        called = inference.frame_value(function, node.func)
        if _gives_number(node, called):
            return True
        if called.function is not None:
            return False  # A subclass may override this method.
    if isinstance(node, ast.Name) and node.id not in seen:
        bound = _only_bindings(node.id, function, inference, hot_path)
        if bound and all(is_certain(each, function, inference, hot_path, seen | {node.id}) for each in bound):
            return True
    value = inference.frame_value(function, node)
    return value.kind is Kind.NUMBER and (value.constant is not None or value.dtype in ("int", "float", "bool"))


def _gives_number(call: ast.Call, called: Value) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in _COUNTS and not call.args:
        return True
    return called.ref in _GIVES_NUMBERS or (called.ref or "").startswith("math.")


def _only_bindings(
    name: str, function: FunctionInfo, inference: ValueQuestions, hot_path: FrequencyQuestions
) -> list[ast.expr]:
    """The values that plain assignments of the function bind the name to; empty if it is also bound otherwise."""
    if name in function.parameter_names or name in inference.index.rebound_elsewhere:
        return []
    bound = hot_path.bindings(function, name)
    stores = [n for n in function.nodes if isinstance(n, ast.Name) and n.id == name and _stores(n)]
    return list(bound) if len(bound) == len(stores) else []


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
