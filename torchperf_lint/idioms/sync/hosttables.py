"""Tensors on the host that get what is on the device, part by part: `losses[i] = loss`, `kept.copy_(output)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.sync.indexing import Use, hot_subscripts
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.values import Value


class Filled(NamedTuple):
    """A place, in every step, where a device tensor is written into one on the host; and the whole write, in words."""

    site: Site
    write: str
    because: tuple[Because, ...]


def hot_fillings(model: Model) -> Iterator[Filled]:
    """The writes of device tensors into host tensors, in every step."""
    for indexed in hot_subscripts(model, _is_written_on_host):
        given = UNKNOWN if indexed.given is None else indexed.value(indexed.given)
        if indexed.given is not None and indexed.use is Use.WRITTEN and _is_there(given):
            text = f"{model.brief(indexed.site.node)} = {ast.unparse(indexed.given)}"
            yield Filled(indexed.site, " ".join(text.split()), given.because)
    for site in model.method_calls("copy_", hot=True):
        owner, source = shape.receiver(site.node), shape.argument(site.node, "src", 0)
        if owner is None or not isinstance(source, cst.BaseExpression) or len(site.node.args) != 1:
            continue
        value = model.value(source)
        if _is_on_host(model.value(owner)) and value.holds_tensors and value.device.on_accelerator:
            yield Filled(site, model.brief(site.node), value.because)


def _is_written_on_host(node: ast.Subscript, values: Mapping[ast.expr, Value]) -> bool:
    return not isinstance(node.ctx, ast.Load) and _is_on_host(values.get(node.value, UNKNOWN))


def _is_on_host(value: Value) -> bool:
    return value.kind is Kind.TENSOR and not value.mixed and value.device is Device.CPU


def _is_there(value: Value) -> bool:
    return value.is_tensor and value.device.on_accelerator
