"""`i = order[0]`, then `i.item()` and `x[i]`: two reads of one number, where the first would do for both."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.layout import is_written_through
from torchperf_lint.idioms.scripting import is_perhaps_scripted
from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "read the number once, where it is made"
_ASSUMES = "nothing writes to the tensor that the number is taken from, and no traced graph has to serve another number"
_READS = frozenset("shape dtype device ndim size numel dim item tolist".split())
_ORDERS = frozenset({"argsort", "sort", "topk", "argmax", "argmin", "nonzero", "flip", "clone"})
"""Methods and functions that give new memory."""
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


def read_once(model: Model, place: Costly) -> Fix | NoFix:
    """`i = order[0].item()`, and `i` for each `i.item()`, where the number is otherwise a plain index alone."""
    function, name = model.function_of(place.site), place.part
    made = model.only_binding(function, name) if name.isidentifier() else None
    bound = None if made is None else function.parents.get(made)
    if not isinstance(made, ast.Subscript) or not isinstance(bound, ast.Assign) or len(bound.targets) != 1:
        return NoFix.INDEX_FROM_DEVICE
    reads, others = _uses(function, name)
    value = UNKNOWN if not others else model.value_in(function, others[0])
    if not value.is_tensor or value.scalar is not True or not (value.dtype or "").startswith("int"):
        return NoFix.INDEX_FROM_DEVICE
    if not reads or not all(_is_index(model, function, each) for each in others):
        return NoFix.INDEX_FROM_DEVICE
    if (
        not _is_read_next(model, function, bound, reads)
        or model.may_be_rebound(name)
        or is_written_through(model, function, made)
    ):
        return NoFix.MAY_BE_WRITTEN
    sites = [(each, model.site_at(each, surroundings.statement_around(function, each))) for each in (made, *reads)]
    changed: list[Edit] = []
    for node, site in sites:
        if site is None or not isinstance(site.node, cst.BaseExpression) or edits.has_comment(site.tree, site.node):
            return NoFix.NO_ROOM
        text = f"{edits.postfix(site.tree, site.node)}.item()" if node is made else name
        edit = edits.replace(site.tree, site.node, text)
        if edit is None:
            return NoFix.NO_ROOM
        changed.append(edit)
    is_plain = not model.may_be_traced and not is_perhaps_scripted(model, place.site)
    is_safe = (
        is_plain and _is_own(model, function, made.value, name) and not surroundings.may_be_caught(model, place.site)
    )
    return Fix(_TITLE, Safety.SAFE if is_safe else Safety.UNSAFE, tuple(changed), _ASSUMES)


def _uses(function: FunctionInfo, name: str) -> tuple[list[ast.Call], list[ast.Name]]:
    """The calls `name.item()`, and the other loads of the name."""
    reads: list[ast.Call] = []
    others: list[ast.Name] = []
    for node, parent in function.parents.items():
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        call = function.parents.get(parent) if isinstance(parent, ast.Attribute) and parent.attr == "item" else None
        if isinstance(call, ast.Call) and call.func is parent and not call.args and not call.keywords:
            reads.append(call)
        else:
            others.append(node)
    return reads, others


def _is_index(model: Model, function: FunctionInfo, node: ast.Name) -> bool:
    """Whether it alone is the index of a tensor that is read: `x[i]` is the same view for a number of Python's."""
    parent = function.parents.get(node)
    if not isinstance(parent, ast.Subscript) or parent.slice is not node or not isinstance(parent.ctx, ast.Load):
        return False
    return model.value_in(function, parent.value).kind is Kind.TENSOR


def _is_read_next(model: Model, function: FunctionInfo, bound: ast.stmt, reads: list[ast.Call]) -> bool:
    """Whether the statement behind the binding reads the number for certain, before anything else can change it."""
    place = model.place_of(bound)
    following = place.block[place.position + 1 : place.position + 2]
    return any(
        isinstance(each, _SIMPLE) and node in reads and surroundings.is_always_evaluated(function, node)
        for each in following
        for node in subtree(each)
        if isinstance(node, ast.Call)
    )


def _is_own(model: Model, function: FunctionInfo, owner: ast.expr, name: str) -> bool:
    """Whether the function makes the tensor, has no other name for it, and only reads it."""
    if not isinstance(owner, ast.Name) or owner.id in function.parameter_names or model.may_be_rebound(owner.id):
        return False
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == owner.id]
    made = model.all_bindings(function, owner.id)
    stores = [each for each in uses if not isinstance(each.ctx, ast.Load)]
    loads = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return (
        len(made) == len(stores)
        and all(_is_made(model, function, each, owner.id) for each in made)
        and all(_only_reads(function, each, (owner.id, name)) for each in loads)
    )


def _is_made(model: Model, function: FunctionInfo, value: ast.expr, name: str) -> bool:
    """`scores.argsort()`, or a part of the tensor itself: `order[1:][near]`."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Name):
        return value.id == name
    is_call = isinstance(value, ast.Call) and last_name(value.func) in _ORDERS
    return is_call and model.value_in(function, value.func).function is None  # type: ignore[attr-defined]


def _only_reads(function: FunctionInfo, node: ast.expr, names: tuple[str, str]) -> bool:
    """Whether nothing can write to the tensor by what is done with it here, or with a part of it.

    A part may be bound to the first of the names, the tensor's own, or to the second, whose uses are known.
    """
    parent = function.parents.get(node)
    if isinstance(parent, ast.Subscript):
        reads = isinstance(parent.ctx, ast.Load)
        return reads and (parent.slice is node or _only_reads(function, parent, names))
    if isinstance(parent, ast.Attribute):
        return parent.attr in _READS
    if isinstance(parent, ast.Assign) and parent.value is node:
        return len(parent.targets) == 1 and dotted(parent.targets[0]) in names
    return isinstance(parent, (ast.BinOp, ast.Compare))
