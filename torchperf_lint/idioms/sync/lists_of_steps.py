"""Lists to which each step appends a device tensor, and that are made into a tensor behind the loop, entry by entry."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site


class Kept(NamedTuple):
    """Tensors that the steps keep: when they do, the evidence, and why reading them behind the loop costs less."""

    where: str
    because: tuple[Because, ...]
    minor: Because


def kept_by_steps(model: Model, site: Site, listed: cst.BaseExpression) -> Kept | None:
    """The list of a site that no step runs, if a loop before it fills it with a tensor of the device in each step."""
    if not isinstance(listed, cst.Name):
        return None
    function, name = model.function_of(site), listed.value
    bound = model.all_bindings(function, name)
    if not bound or not all(isinstance(each, ast.List) and not each.elts for each in bound):
        return None
    value = model.value(listed)
    element = value.element if value.kind is Kind.CONTAINER else None
    if (
        element is None
        or not element.is_tensor
        or not element.device.on_accelerator
        or model.hot_path(site) is not None
    ):
        return None
    if any(isinstance(part, ast.Mod) for test in model.place(site.node).tests() for part in subtree(test)):
        return None  # of many passes of the outer loop, one reads it
    for record in function.calls_made:
        if dotted(record.call.func) != f"{name}.append":
            continue
        hot_path = model.hot_path_of(record.statement)
        loop = None if hot_path is None else hot_path.loop
        if hot_path is None or loop is None or (loop.end_lineno or loop.lineno) >= site.rows[0]:
            continue
        if not any(loop.lineno <= each.lineno <= (loop.end_lineno or loop.lineno) for each in bound):
            row = record.call.lineno
            step = Because(row, f"`{ast.unparse(record.call)}` keeps a tensor {hot_path.where}")
            minor = Because(
                site.rows[0], "all of them wait behind the loop, where only the first one finds work that is queued"
            )
            return Kept(hot_path.where, (step, *element.because, *hot_path.because), minor)
    return None
