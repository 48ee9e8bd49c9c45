"""Casts next to a copy between host and device: on which side they run, and how many bytes that costs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.idioms.transfer.construction import built_on_host, makers_on_host
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Device, Kind, Origin
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import HotPath, Model, Site

_BYTES = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int": 4, "int32": 4, "int64": 8}
_BYTES |= {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_WHOLE = ("int", "uint", "bool")
_SHAPES = frozenset("unsqueeze squeeze permute transpose reshape flatten movedim".split())
"""Methods that return another shape, whatever the tensor's memory layout."""

_PIXELS = ("255", "255.0", "255.", "127.5")
"""Divisors of numbers that come as pixels of one byte, 0 to 255."""
_DIVIDES = ("div", "div_", "divide", "divide_", "true_divide")


class CastCopy(NamedTuple):
    """A copy to the other side, and the cast directly before or after it, of a tensor with a known dtype.

    `tensor` is the receiver of the first of the two, `outer` the second one. With `merged` the copy itself casts.
    With `apart` there is arithmetic between the two.
    """

    site: Site  # of the outer call
    tensor: cst.BaseExpression
    copy: cst.Call
    cast: cst.Call
    to_device: bool
    merged: bool
    given: str
    wanted: str
    hot_path: HotPath
    because: tuple[Because, ...]
    apart: bool = False

    @property
    def cast_first(self) -> bool:
        """Whether the cast runs on the side that the tensor leaves."""
        return self.site.node is self.copy

    @property
    def bytes_sent(self) -> tuple[int, int]:
        """Bytes per element that are copied now, and in the opposite order."""
        given, wanted = _BYTES[self.given], _BYTES[self.wanted]
        return (wanted, given) if self.cast_first else (given, wanted)

    @property
    def exact(self) -> bool:
        """Whether host and device convert every number alike: floats cast to integers may overflow."""
        return self.given.startswith(_WHOLE) or not self.wanted.startswith(_WHOLE)


def cast_copies(model: Model) -> Iterator[CastCopy]:
    """The copies between host and device, in every step, with a cast next to them, in source order."""
    found = [*_to_device(model), *_to_host(model)]
    yield from sorted(found, key=lambda each: each.site.start)


def _to_device(model: Model) -> Iterator[CastCopy]:
    for move in hot_moves(model):
        if move.like or not move.plain or shape.method_name(move.call) == "type_as":
            continue
        if built_on_host(model, move.moved) is not None or makers_on_host(model, move):
            continue  # it should be built on the device instead
        if not _comes_from_host(model, move):
            continue
        if move.dtype is not None:
            # A blocking copy casts before it sends, a non-blocking one casts where it arrives.
            if not move.non_blocking:
                yield from _made(model, move.site, move.moved, move.call, move.call, True, move.hot_path, ())
            continue
        before = _without_shapes(move.moved)
        if isinstance(before, cst.Call) and _only_casts(model, before):
            inner = shape.receiver(before)
            if inner is not None:
                yield from _made(model, move.site, inner, move.call, before, True, move.hot_path, ())
                yield from _of_pixels(model, move.site, inner, move.call, before, move.hot_path)
        scaled = _scaled(before)
        if isinstance(scaled, cst.Call) and _only_casts(model, scaled):
            inner = shape.receiver(scaled)
            if inner is not None:
                yield from _of_pixels(model, move.site, inner, move.call, scaled, move.hot_path)
        after = _called_on(model, move.call)
        if after is not None and _only_casts(model, after):
            yield from _made(model, model.site(after), move.moved, move.call, after, True, move.hot_path, ())


def _comes_from_host(model: Model, move: Move) -> bool:
    """Whether a part of what is moved is shown to be on the host, or a loader's batch."""
    function, moved = model.function_of(move.site), model.ast_of(move.moved)
    parts = [each for each in subtree(moved) if isinstance(each, ast.expr)] if moved is not None else []
    values = [model.value_in(function, each) for each in parts]
    return any(each.origin is not None or (each.device is Device.CPU and each.holds_tensors) for each in values)


def _to_host(model: Model) -> Iterator[CastCopy]:
    for site in model.method_calls("cpu", "to", hot=True):
        copy, hot_path = site.node, model.hot_path(site)
        if hot_path is None or not _only_goes_to_host(model, copy):
            continue
        before = shape.receiver(copy)
        because = None if before is None else model.on_device(before)
        if before is None or because is None:
            continue
        cast = _without_shapes(before)
        if isinstance(cast, cst.Call) and _only_casts(model, cast):
            inner = shape.receiver(cast)
            if inner is not None:
                yield from _made(model, site, inner, copy, cast, False, hot_path, because)
        after = _called_on(model, copy)
        if after is not None and _only_casts(model, after):
            yield from _made(model, model.site(after), before, copy, after, False, hot_path, because)


def _made(
    model: Model,
    site: Site,
    tensor: cst.BaseExpression,
    copy: cst.Call,
    cast: cst.Call,
    to_device: bool,
    hot_path: HotPath,
    because: tuple[Because, ...],
) -> Iterator[CastCopy]:
    value, wanted = model.value(tensor), _cast_to(model, cast)
    known = value.kind is Kind.TENSOR and not value.mixed and value.scalar is not True and value.dtype in _BYTES
    if known and value.dtype is not None and wanted in _BYTES:
        merged = copy is cast
        yield CastCopy(site, tensor, copy, cast, to_device, merged, value.dtype, wanted, hot_path, because)


def _of_pixels(
    model: Model, site: Site, tensor: cst.BaseExpression, copy: cst.Call, cast: cst.Call, hot_path: HotPath
) -> Iterator[CastCopy]:
    """The same for a loader's images: pixels that are cast to floats and divided by 255 were bytes."""
    value, wanted = model.value(_without_shapes(tensor)), _cast_to(model, cast)
    if value.origin is not Origin.BATCH or value.dtype is not None or wanted not in _BYTES:
        return
    division = _division_around(model, copy) or _division_around(model, cast)
    if division is not None and not wanted.startswith(_WHOLE):
        shown = Because(site.rows[0], f"`{model.brief(division)}`: what is divided so are bytes")
        apart = _division_around(model, copy) is None
        yield CastCopy(site, tensor, copy, cast, True, False, "uint8", wanted, hot_path, (shown,), apart)


def _division_around(model: Model, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x / 255` or `x.div(255)` of `x`, with nothing but shape changes in between."""
    outer = _called_on(model, node)
    while outer is not None and shape.method_name(outer) in _SHAPES:
        node, outer = outer, _called_on(model, outer)
    around = outer if outer is not None else model.parent(node)
    return around if isinstance(around, (cst.Call, cst.BinaryOperation)) and _scaled(around) is node else None


def _scaled(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x / 255`, `x.div(255)`."""
    if isinstance(node, cst.BinaryOperation):
        by, of = node.right, node.left
        divides = isinstance(node.operator, cst.Divide)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and len(node.args) == 1:
        by, of = node.args[0].value, node.func.value
        divides = node.func.attr.value in _DIVIDES and node.args[0].keyword is None
    else:
        return None
    return of if divides and isinstance(by, (cst.Integer, cst.Float)) and by.value in _PIXELS else None


def _cast_to(model: Model, call: cst.Call) -> str | None:
    """The dtype of a method that only casts, `x.float()`, `x.to(torch.uint8)`, or of a copy that also casts."""
    name = shape.method_name(call) or ""
    if shape.receiver(call) is None or any(argument.star for argument in call.args):
        return None
    if name in torch_api.DTYPE_METHODS:
        return None if call.args else torch_api.DTYPE_METHODS[name]
    if name not in ("to", "type"):
        return None
    dtypes = [value for each in call.args if (value := model.value(each.value)).kind is Kind.DTYPE]
    is_copy = name == "to" and len(call.args) > 1
    return dtypes[0].dtype if len(dtypes) == 1 and (is_copy or len(call.args) == 1) else None


def _only_casts(model: Model, call: cst.Call) -> bool:
    """Whether a method casts without moving: `x.to(device, torch.uint8)` moves as well."""
    if _cast_to(model, call) is None:
        return False
    stays = not call.args or model.value(call.args[0].value).kind is Kind.DTYPE
    return stays and all(each.keyword is None or each.keyword.value != "device" for each in call.args)


def _without_shapes(node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.unsqueeze(1)`: shape changes and casts commute."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.lpar:
        if node.func.attr.value not in _SHAPES or any(argument.star for argument in node.args):
            break
        node = node.func.value
    return node


def _called_on(model: Model, call: cst.BaseExpression) -> cst.Call | None:
    """`x.f().g()` of `x.f()`."""
    attribute = model.parent(call)
    outer = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    return outer if isinstance(outer, cst.Call) and outer.func is attribute else None


def _only_goes_to_host(model: Model, call: cst.Call) -> bool:
    if shape.method_name(call) == "cpu":
        return not call.args
    return len(call.args) == 1 and not call.args[0].star and model.device_named(call.args[0].value) is Device.CPU
