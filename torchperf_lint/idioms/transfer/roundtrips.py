"""Tensors that leave the accelerator and are sent back, unchanged but for casts and shapes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_SAME_NUMBERS = torch_api.VIEW_METHODS | {"detach", "clone", "contiguous"}
_ENDS_A_STAY = frozenset("backward step empty_cache collect synchronize".split())
"""Calls between two moves for which the device memory may have been freed."""


class RoundTrip(NamedTuple):
    """`x.cpu().float().to(device)`: x is copied to the host and back, with only `steps` done to it there."""

    move: Move  # the way back
    leaving: cst.Call | None  # the way to the host, if it is in the same expression
    left: str  # the way to the host, as written
    row: int
    steps: tuple[cst.Call, ...]  # in the same expression, from the outermost to the innermost
    because: tuple[Because, ...]  # evidence that the tensor is on the device


def round_trips(model: Model) -> tuple[RoundTrip, ...]:
    """The moves to the accelerator, in every step, of tensors that have just come from there."""
    return model.remember("round_trips", lambda: tuple(_round_trips(model)))


def goes_back(model: Model, site: Site) -> bool:
    """Whether what the call at the site fetches from the device is sent back at once."""
    return any(
        trip.leaving is site.node or (trip.leaving is None and trip.row == site.rows[0]) for trip in round_trips(model)
    )


def comes_from_there(model: Model, move: Move) -> bool:
    """Whether the moved tensor has just come from the device."""
    return any(trip.move.site.start == move.site.start for trip in round_trips(model))


def _round_trips(model: Model) -> Iterator[RoundTrip]:
    for move in hot_moves(model):
        node, steps = move.moved, list[cst.Call]()
        while isinstance(node, cst.Call) and not _leaves(model, node):
            inner = shape.receiver(node)
            if inner is None or not _carries(model, node):
                break
            steps.append(node)
            node = inner
        if isinstance(node, cst.Name):
            yield from _named(model, move, node.value, tuple(steps))
        elif isinstance(node, cst.Call) and _leaves(model, node):
            fetched = shape.receiver(node)
            because = None if fetched is None or not _is_tensor(model, fetched) else model.on_device(fetched)
            if because is not None:
                row = model.site(node).rows[0]
                yield RoundTrip(move, node, model.brief(node), row, tuple(steps), because)


def _is_tensor(model: Model, node: cst.BaseExpression) -> bool:
    value = model.value(node)
    return value.holds_tensors and not value.mixed


def _leaves(model: Model, call: cst.Call) -> bool:
    """`x.cpu()`, `x.to("cpu")`, or `x.type(torch.LongTensor)`, which makes host tensors."""
    name = shape.method_name(call)
    if shape.receiver(call) is None or any(argument.star for argument in call.args):
        return False
    if name == "cpu":
        return True
    if name == "to":
        place = shape.argument(call, "device", 0)
        return isinstance(place, cst.BaseExpression) and model.device_named(place) is Device.CPU
    return name == "type" and host_type(model, call) is not None


def host_type(model: Model, call: cst.Call) -> str | None:
    """The dtype of `x.type(torch.LongTensor)`, if the type is one of the host's; None for any other call."""
    given = shape.argument(call, "dtype", 0)
    if shape.method_name(call) != "type" or not isinstance(given, cst.BaseExpression):
        return None
    value = model.value(given)
    ref = value.ref if value.kind is Kind.LIBRARY else value.constant if value.kind is Kind.STRING else None
    return torch_api.LEGACY_FACTORIES.get(ref) if isinstance(ref, str) and ref != "torch.Tensor" else None


def _carries(model: Model, call: cst.Call) -> bool:
    """Whether a method returns the same numbers, in another shape or dtype."""
    name = shape.method_name(call) or ""
    if any(argument.star for argument in call.args):
        return False
    if name in ("to", "type"):
        return len(call.args) == 1 and model.value(call.args[0].value).kind is Kind.DTYPE
    return name in _SAME_NUMBERS or name in torch_api.DTYPE_METHODS


def _named(model: Model, move: Move, name: str, steps: tuple[cst.Call, ...]) -> Iterator[RoundTrip]:
    """The same across lines: the last binding of the name fetched its tensor from the device, in this pass."""
    place = model.place(move.site.node)
    for earlier in reversed(place.before):
        if isinstance(earlier, ast.Assign) and [last_name(target) for target in earlier.targets] == [name]:
            fetched = _fetched(earlier.value)
            if fetched is None or not isinstance(earlier.targets[0], ast.Name):
                return
            value = model.value_in(place.function, fetched)
            if value.holds_tensors and not value.mixed and value.device.on_accelerator:
                yield RoundTrip(move, None, ast.unparse(earlier.value), earlier.lineno, steps, value.because)
            return
        if any(_interferes(model, place.function, node, name) for node in subtree(earlier)):
            return


def _fetched(node: ast.expr) -> ast.expr | None:
    """`x` of `x.cpu()`, `x.to("cpu")` and `x.detach().cpu()`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    first = node.args[0] if node.args else None
    is_copy = node.func.attr == "cpu" or (
        node.func.attr == "to" and isinstance(first, ast.Constant) and first.value == "cpu"
    )
    return node.func.value if is_copy else None


def _interferes(model: Model, function: FunctionInfo, node: ast.AST, name: str) -> bool:
    """Whether code between the moves uses the copy, or may be what device memory is freed for."""
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.Delete):
        return True
    if not isinstance(node, ast.Call):
        return False
    called = model.value_in(function, node.func)
    return called.kind is Kind.MODULE or last_name(node.func) in _ENDS_A_STAY
