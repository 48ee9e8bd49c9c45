"""What is known of a choice beyond the join of its parts: `given or default`, `x.device if flag else "cpu"`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.syntax.index import dotted, names_in
from torchperf_lint.model.values.devices import as_device

if TYPE_CHECKING:
    from torchperf_lint.model.domain.values import Value


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
