"""What the default of a parameter says of it: a number, a device, or a function that is called where none is given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.knowledge.torch_api import DTYPES
from torchperf_lint.model.domain.values import NONE, NUMBER, STRING, UNKNOWN, Device, Kind, Value, container, text_names
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.values.devices import as_device
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo


_KEEP = frozenset(
    "staticmethod classmethod property cached_property abstractmethod override no_grad inference_mode enable_grad "
    "contextmanager ignore unused export custom_fwd custom_bwd".split()
)
"""Decorators that call the function with the arguments that they get."""


def by_default(inference: ValueQuestions, function: FunctionInfo, name: str, default: ast.expr | None) -> Value:
    """The value of a parameter that no call is known to give; UNKNOWN where its default says nothing."""
    if isinstance(default, ast.Constant):
        if isinstance(default.value, (bool, int, float)):
            return NUMBER
        if isinstance(default.value, str) and name not in conventions.DEVICE_NAMES:
            return STRING
    place = _place_by_default(inference, function, default) if name in conventions.DEVICE_NAMES else None
    if place is not None:
        return Value(Kind.DEVICE, place.or_host())
    elements = default.elts if isinstance(default, (ast.Tuple, ast.List)) else []
    if elements and all(literal(element).kind is Kind.NUMBER for element in elements):
        return container(NUMBER, ref=type(default).__name__.lower())
    value = called_by_default(inference, function, default)
    return value._replace(dtype=None) if value.kind is Kind.DTYPE else value  # other callers may give another one


def _place_by_default(inference: ValueQuestions, function: FunctionInfo, default: ast.expr | None) -> Device | None:
    """A parameter's device by default: `device="cuda"`, `device=torch.device("cuda")`, `device=DEVICE`."""
    if isinstance(default, ast.Call) and last_name(default.func) == "device" and default.args:
        default = default.args[0]
    if isinstance(default, ast.Constant):
        return (text_names(default.value) or Device.LIKELY) if isinstance(default.value, str) else None
    place = as_device(_bound_outside(inference, function, default.id)) if isinstance(default, ast.Name) else None
    return place if place is not None and place.is_cuda else None


def _bound_outside(inference: ValueQuestions, function: FunctionInfo, name: str) -> Value:
    """The value of a name where the function is defined."""
    outer, value = function.outer, None
    while outer is not None and value is None:
        value = inference.at_end(outer, name)
        outer = outer.outer
    return value or inference.names.late(name) or UNKNOWN


def called_by_default(inference: ValueQuestions, function: FunctionInfo, default: ast.expr | None) -> Value:
    """A function or class of the program, `def fit(batches, prepare=to_device)`, or a dtype: `dtype=torch.float32`."""
    if isinstance(default, ast.Name):
        value = _bound_outside(inference, function, default.id)
        return value if value.kind in (Kind.FUNCTION, Kind.CLASS, Kind.DTYPE) else UNKNOWN
    if not isinstance(default, ast.Attribute) or not isinstance(default.value, ast.Name):
        return UNKNOWN
    owner = _bound_outside(inference, function, default.value.id)
    is_torch = owner.kind is Kind.LIBRARY and owner.ref == "torch"
    dtype = DTYPES.get(f"torch.{default.attr}") if is_torch else None
    return UNKNOWN if dtype is None else Value(Kind.DTYPE, dtype=dtype)


def left_out(function: FunctionInfo, name: str, default: ast.Constant) -> Value:
    """The value of a parameter in a call that leaves it out: its text or flag, unless a decorator may give another.

    A device that is left out is None. What else is None by default is mostly set in the function, and unknown here.
    """
    value = UNKNOWN if default.value is None else literal(default)
    if any(last_name(each.func if isinstance(each, ast.Call) else each) not in _KEEP for each in function.decorators):
        return value._replace(constant=None)
    if default.value is None and name in conventions.DEVICE_NAMES:
        is_set = name in function.index.rebound_elsewhere or _is_asserted(function, name)
        return value if is_set else NONE
    return value._replace(constant=default.value) if isinstance(default.value, bool) else value


def _is_asserted(function: FunctionInfo, name: str) -> bool:
    """Whether an assertion names the parameter: `assert device is not None` in the branch that needs it."""
    asserted = (each.test for each in function.statements if isinstance(each, ast.Assert))
    return any(isinstance(each, ast.Name) and each.id == name for test in asserted for each in subtree(test))


def literal(default: ast.expr) -> Value:
    """The value of a default that is a number, a string or None."""
    if not isinstance(default, ast.Constant):
        return UNKNOWN
    value = default.value
    if isinstance(value, (bool, int, float)):
        return NUMBER
    return NONE if value is None else Value(Kind.STRING, constant=value) if isinstance(value, str) else UNKNOWN
