"""How large a Python number can be: `torch.full` raises an error where `torch.tensor` gives infinity."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import numpy_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import is_whole

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_COUNTED = 2.0**48
"""More than a program counts in a year, and more elements than memory holds."""
_NAMED = math.tau
"""The largest number that `math`, NumPy and torch name; every float has its infinity and its NaN."""
_EXPONENT = 80.0
"""The exponential of a number up to this one is a float32."""
OF_FLOAT16 = 65504
OF_FLOAT32 = 3.4e38
OF_INTEGERS = 2.0**62
"""Integers up to these convert to a float; those beyond 64 bits raise an error."""

_COUNTS = frozenset("size numel dim nelement ndimension element_size".split())
_WITHIN_ONE = frozenset("math.sin math.cos math.tanh math.erf random.random".split())
_CLOCKS = frozenset("time.time time.perf_counter time.monotonic time.process_time".split())
_KEEP = frozenset(
    "builtins.int builtins.float builtins.abs builtins.round builtins.min builtins.max math.floor math.ceil math.fabs "
    "math.trunc random.uniform random.randint random.randrange".split()
)
"""Functions whose result is hardly farther from zero than the farthest of their arguments."""


def largest(model: Model, node: cst.BaseExpression) -> float | None:
    """A bound of the number's distance from zero, infinity and NaN apart; None where the code shows none."""
    meaning = model.ast_of(node)
    found = None if meaning is None else _Bounds(model, model.place(node).function).of(meaning, frozenset())
    return found if found is not None and math.isfinite(found) else None


class _Bounds:
    """Follows the names of a function to what binds them."""

    def __init__(self, model: Model, function: FunctionInfo) -> None:
        self._model = model
        self._function = function

    def of(self, node: ast.expr, seen: frozenset[str]) -> float | None:
        """The bound; `seen` are the names whose bindings are being followed."""
        constant = self._model.value_in(self._function, node).constant
        if isinstance(constant, (int, float)):
            return _as_float(constant)
        if isinstance(node, ast.Name):
            return self._named(node.id, seen)
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return 1.0
        if isinstance(node, ast.UnaryOp):
            return self.of(node.operand, seen)
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return self._farthest(parts, seen)
        if isinstance(node, ast.Subscript):
            whole = node.value
            is_shape = isinstance(whole, ast.Attribute) and whole.attr == "shape"
            return _COUNTED if is_shape and self._is_tensor(whole.value) else None  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute):
            return _NAMED if f"{self._ref(node.value)}.{node.attr}" in numpy_api.FLOATS else None
        if isinstance(node, ast.BinOp):
            return self._computed(node, seen)
        return self._called(node, seen) if isinstance(node, ast.Call) else None

    def _is_tensor(self, node: ast.expr) -> bool:
        return self._model.value_in(self._function, node).holds_tensors

    def _farthest(self, nodes: list[ast.expr], seen: frozenset[str]) -> float | None:
        found = [self.of(each, seen) for each in nodes]
        known = [each for each in found if each is not None]
        return max(known) if known and len(known) == len(found) else None

    def _named(self, name: str, seen: frozenset[str]) -> float | None:
        stores = [each for each in self._function.nodes if isinstance(each, ast.Name) and each.id == name]
        stores = [each for each in stores if isinstance(each.ctx, ast.Store)]
        function, model = self._function, self._model
        if name in seen or name in function.parameter_names or model.may_be_rebound(name) or not stores:
            return None
        counted = [each for each in stores if self._counts(each)]
        bound = model.bindings(function, name)
        if len(bound) + len(counted) != len(stores):
            return None
        found = self._farthest(bound, seen | {name}) if bound else 0.0
        return None if found is None else max(found, _COUNTED if counted else 0.0)

    def _counts(self, store: ast.Name) -> bool:
        """Whether a loop counts by the name: `for i in range(n)`, `for i, x in enumerate(xs)`, `i += 1`."""
        parent = self._function.parents[store]
        if isinstance(parent, ast.AugAssign):
            step = self._model.value_in(self._function, parent.value).constant
            return isinstance(parent.op, (ast.Add, ast.Sub)) and type(step) is int and step == 1
        loop, walker = parent, "builtins.range"
        if isinstance(parent, ast.Tuple) and parent.elts[0] is store:
            loop, walker = self._function.parents[parent], "builtins.enumerate"
        if not isinstance(loop, (ast.For, ast.AsyncFor, ast.comprehension)) or not isinstance(loop.iter, ast.Call):
            return False
        return self._ref(loop.iter.func) == walker

    def _ref(self, node: ast.expr) -> str:
        value = self._model.value_in(self._function, node)
        return (value.ref or "") if value.kind is Kind.LIBRARY else ""

    def _computed(self, node: ast.BinOp, seen: frozenset[str]) -> float | None:
        left, right = self.of(node.left, seen), self.of(node.right, seen)
        if isinstance(node.op, ast.Mod):
            return right
        if left is None or right is None:
            return None
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return left + right
        if isinstance(node.op, ast.Mult):
            return left * right
        divisor = self._model.value_in(self._function, node.right)
        if isinstance(node.op, (ast.Div, ast.FloorDiv)):
            if isinstance(divisor.constant, (int, float)):
                return left / right + 1 if right else None
            return left + 1 if is_whole(divisor.dtype) or divisor.dtype == "int" else None
        exponent = divisor.constant
        return _power(left, exponent) if isinstance(node.op, ast.Pow) and type(exponent) in (int, float) else None

    def _called(self, call: ast.Call, seen: frozenset[str]) -> float | None:
        if call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        ref = self._ref(call.func)
        text = call.args[0] if ref == "builtins.float" and len(call.args) == 1 else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            return _written(text.value)
        if ref == "builtins.len":
            return _COUNTED
        if ref in _WITHIN_ONE:
            return 1.0
        if ref in _CLOCKS:
            return _COUNTED
        if ref in _KEEP and call.args:
            found = self._farthest(call.args, seen)
            return None if found is None else found + 1
        if ref in ("math.sqrt", "math.log", "math.log2", "math.log10", "math.exp") and len(call.args) == 1:
            given = self.of(call.args[0], seen)
            if given is None or (ref == "math.exp" and given > _EXPONENT):
                return None
            return math.exp(given) if ref == "math.exp" else max(given, _COUNTED)
        if not isinstance(call.func, ast.Attribute) or not self._is_tensor(call.func.value):
            return None
        if call.func.attr == "item":
            return OF_FLOAT32 if self._is_short(call.func.value) else None
        return _COUNTED if call.func.attr in _COUNTS else None

    def _is_short(self, node: ast.expr) -> bool:
        return self._model.value_in(self._function, node).dtype in ("float32", "float16", "bfloat16")


def _as_float(number: float) -> float | None:
    try:
        return abs(float(number))
    except OverflowError:
        return None


def _written(text: str) -> float | None:
    """The bound of `float(text)`: 0 for infinity and NaN, which every float has."""
    try:
        number = float(text)
    except ValueError:
        return None
    return abs(number) if math.isfinite(number) else 0.0


def _power(base: float, exponent: object) -> float | None:
    assert isinstance(exponent, (int, float))
    try:
        return max(base, 1.0) ** exponent if exponent >= 0 else None
    except OverflowError:
        return None
