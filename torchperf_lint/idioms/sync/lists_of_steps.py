"""Lists to which each step appends a device tensor, and that are made into a tensor behind the loop, entry by entry."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, is_sampling_guard
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo


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
    if not bound or not all(map(_is_empty_list, bound)):
        return None
    if _is_shortened(function, name) or _is_for_few_passes(model, site):
        return None
    value = model.value(listed)
    element = value.element if value.kind is Kind.CONTAINER else None
    if element is None or not element.is_tensor or not element.device.on_accelerator:
        return None
    if model.hot_path(site) is not None:
        return None
    for record in function.calls_made:
        hot_path = model.hot_path_of(record.statement) if dotted(record.call.func) == f"{name}.append" else None
        if hot_path is None or hot_path.loop is None:
            continue
        first, last = hot_path.loop.lineno, hot_path.loop.end_lineno or hot_path.loop.lineno
        if last < site.rows[0] and not any(first <= each.lineno <= last for each in bound):
            step = Because(record.call.lineno, f"`{ast.unparse(record.call)}` keeps a tensor {hot_path.where}")
            minor = Because(
                site.rows[0], "all of them wait behind the loop, where only the first one finds work that is queued"
            )
            return Kept(hot_path.where, (step, *element.because, *hot_path.because), minor)
    return None


def _is_empty_list(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return dotted(node.func) == "list" and not node.args and not node.keywords
    return isinstance(node, ast.List) and not node.elts


def _is_shortened(function: FunctionInfo, name: str) -> bool:
    """Whether entries of a list may go: `losses.pop()`, `del losses[0]`, `losses[:] = []`."""
    for node in function.nodes:
        if isinstance(node, ast.Attribute) and dotted(node.value) == name and node.attr not in ("append", "extend"):
            return True
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and dotted(node.value) == name:
            return True
    return False


def _is_for_few_passes(model: Model, site: Site) -> bool:
    """Whether a test around the site lets few passes of the loops around it through: `if epoch % 10 == 0`."""
    place = model.place(site.node)
    lookup = partial(model.all_bindings, place.function)
    around = ((each.parent, each.field) for each in place.outwards())
    return any(isinstance(part, ast.If) and _is_rare(part.test, field == "body", lookup) for part, field in around)


def _is_rare(test: ast.expr, taken: bool, lookup: Callable[[str], list[ast.expr]]) -> bool:
    return is_sampling_guard(test, taken, lookup) or (taken and any(map(_asks_for_last, subtree(test))))


def _asks_for_last(node: ast.AST) -> bool:
    """`epoch == epochs - 1`."""
    is_equal = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) and is_equal else []
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and isinstance(each.right, ast.Constant)
        for each in sides
    )
