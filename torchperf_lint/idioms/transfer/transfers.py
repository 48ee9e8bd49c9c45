"""Moves of data to the accelerator (`x.to(device)`, `x.cuda()`): their destination, receiver and other arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.written_helpers import SENT, stands_in
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.handles import named_device
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import CallRecord

MOVERS = ("to", "cuda", "type_as")


class Move(NamedTuple):
    """A call that puts its receiver on the accelerator in every step.

    `device` is the expression that names the device (None: the current device, as in `.cuda()`); with `like` it is
    a tensor whose dtype is used, too. `non_blocking` says that the call has the argument, whatever its
    value; `plain` that it sets only device, dtype and blocking.
    """

    site: Site
    moved: cst.BaseExpression
    device: cst.BaseExpression | None
    like: bool
    dtype: cst.BaseExpression | None
    non_blocking: bool
    plain: bool
    hot_path: HotPath
    because: tuple[Because, ...]

    @property
    def call(self) -> cst.Call:
        """The call itself."""
        node = self.site.node
        assert isinstance(node, cst.Call)
        return node


def hot_moves(model: Model) -> tuple[Move, ...]:
    """The moves to the accelerator in every step, in source order, of values that may not be there yet."""
    return model.remember("hot_moves", lambda: tuple(_hot_moves(model)))


def _hot_moves(model: Model) -> Iterator[Move]:
    for site in model.sites(MOVERS, True, lambda record: _is_move(model, record)):
        call = site.node
        assert isinstance(call, cst.Call)
        hot_path, moved = model.hot_path(site), shape.receiver(call)
        if hot_path is not None and moved is not None and not stands_in(model, site, SENT):
            move = _understood(model, site, call, moved, hot_path)
            if move is not None:
                yield move


def _understood(model: Model, site: Site, call: cst.Call, moved: cst.BaseExpression, hot_path: HotPath) -> Move | None:
    """The parsed move; None if `*args`, or `**kwargs` without a named device, may hold anything."""
    stars = {argument.star for argument in call.args} - {""}
    if "*" in stars:
        return None
    positional = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    if stars and not positional and "device" not in named:
        return None
    device, dtype, like, taken = named.pop("device", None), named.pop("dtype", None), False, 0
    name = shape.method_name(call)
    if name == "type_as":
        device, like, taken = named.pop("other", None), True, len(positional)
        device = positional[0] if positional else device
    elif name == "cuda":
        device, taken = (positional[0] if positional else device), min(len(positional), 1)
    elif positional:
        value = model.value(positional[0])
        taken = 1
        if value.kind is Kind.DTYPE:
            dtype = positional[0]
        elif value.holds_tensors:
            device, like = positional[0], True
        else:
            device = positional[0]
            if len(positional) > 1:
                dtype, taken = positional[1], 2
    elif "other" in named:
        device, like = named.pop("other"), True
    non_blocking = bool(stars) or len(positional) > taken or "non_blocking" in named or "async" in named
    extra = bool(stars) or len(positional) > taken + 1 or bool(set(named) - {"non_blocking", "async"})
    because = model.value(call).because
    return Move(site, moved, device, like, dtype, non_blocking, not extra, hot_path, because)


def destination(call: ast.Call, value_of: Callable[[ast.expr], Value]) -> Device:
    """The device that `x.to(...)`, `x.cuda()` or `x.type_as(y)` moves x to; UNKNOWN if it only changes the dtype."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "cuda":
        return Device.CUDA
    wanted = call.args[:1] + [k.value for k in call.keywords if k.arg in ("device", "other")]
    for node in wanted:
        value = value_of(node)
        if value.holds_tensors:
            return value.device
        device = named_device(node, value) if call.func.attr == "to" else None
        if device is None and value.kind is Kind.NUMBER and call.func.attr == "to" and node in call.args:
            return Device.LIKELY  # the index of an accelerator
        if device is not None:
            return device
    return Device.UNKNOWN


def _is_move(model: Model, record: CallRecord) -> bool:
    """Whether the call moves a value to the accelerator without evidence that it is there already."""
    func = record.call.func
    if not isinstance(func, ast.Attribute):
        return False
    values = model.values_in(record.function, record.statement)
    moved = values.get(func.value, UNKNOWN)
    there = moved.device.on_accelerator and moved.kind not in (Kind.MODULE, Kind.METRIC)
    return not there and destination(record.call, lambda node: values.get(node, UNKNOWN)).on_accelerator
