"""What is known of a choice beyond the join of its parts: `given or default`, `x.device if flag else "cpu"`."""

from __future__ import annotations

import ast
import re

from torchperf_lint.model.domain.values import Device, Kind, Value
from torchperf_lint.model.syntax.index import dotted, last_name, names_in
from torchperf_lint.model.values.devices import as_device

_WRAPS = re.compile(r"wrap|graph|compil|^script$|cache", re.IGNORECASE)
"""Names of what runs a function in another way: `CudaGraphWrapper(f)`, `torch.compile(f)`."""


def one_of(choice: ast.IfExp, left: Value, right: Value, lean: bool | None) -> Value | None:
    """What is known of `left if test else right` beyond the join of both; None for nothing."""
    if not lean and may_stay_on_host(choice, left, right):
        return Value(Kind.DEVICE)
    if Kind.NUMPY in (left.kind, right.kind) and is_cast(choice.body, choice.orelse):
        return Value(Kind.NUMPY)
    return _wrapped(choice, left, right)


def selected(values: list[Value]) -> Value | None:
    """`given or torch.device("cuda")`: the device that is selected where nothing else is given."""
    *given, default = values
    if default.kind is not Kind.DEVICE or any(each.kind not in (Kind.UNKNOWN, Kind.METHOD) for each in given):
        return None
    return default._replace(device=Device.LIKELY) if default.device.on_accelerator else None


def may_stay_on_host(choice: ast.IfExp, left: Value, right: Value) -> bool:
    """`x.device if flag else "cpu"`: a tensor's device or the host, chosen independently of the tensor."""
    for node, place, other in ((choice.body, left, right), (choice.orelse, right, left)):
        if place.kind is Kind.DEVICE and isinstance(node, ast.Attribute) and node.attr == "device":
            is_host = other.kind is Kind.NONE or as_device(other) is Device.CPU
            return is_host and not set(names_in(node)) & set(names_in(choice.test))
    return False


def is_cast(body: ast.expr, orelse: ast.expr) -> bool:
    """`x.astype(dtype) if test else x`: an array either way, for tensors have no such method."""
    for cast, given in ((body, orelse), (orelse, body)):
        casts = isinstance(cast, ast.Call) and isinstance(cast.func, ast.Attribute) and cast.func.attr == "astype"
        if casts and isinstance(given, ast.Name) and dotted(cast.func.value) == given.id:  # type: ignore[attr-defined]
            return True
    return False


def _wrapped(choice: ast.IfExp, left: Value, right: Value) -> Value | None:
    """`f` of `wrap(f) if flag else f`: a wrapper of a function returns what it does. None for anything else."""
    for call, alone, value in ((choice.body, choice.orelse, right), (choice.orelse, choice.body, left)):
        if value.function is None or not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
            continue
        if (
            _WRAPS.search(last_name(call.func) or "")
            and dotted(call.args[0]) is not None
            and dotted(call.args[0]) == dotted(alone)
        ):
            return value
    return None
