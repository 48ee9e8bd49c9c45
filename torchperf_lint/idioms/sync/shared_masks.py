"""Several reads through one mask as reads of places that are found once: `places = mask.nonzero(as_tuple=True)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, scripting, surroundings, writes
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_bound_in, names_in
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_INDEXED = (Kind.TENSOR, Kind.PYTREE)
"""Tensors, and parts of a batch, which can be nothing else if a mask on the device indexes them."""

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_MAYBE = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_COMPARES = (
    ast.Name,
    ast.Constant,
    ast.Compare,
    ast.UnaryOp,
    ast.BinOp,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
    ast.Load,
)
"""All that a mask may consist of that is compared anew for each read."""

_ASSUMES = (
    "what is indexed is a tensor, nothing writes to the mask by another name, no error in its shape is caught, and no "
    "graph is traced"
)


class _Group(NamedTuple):
    """Reads through one mask, of which the first runs whenever the others do."""

    mask: ast.expr
    reads: list[Indexed]
    statements: list[ast.stmt]  # those of the first read's block, from the first read to the last


def read_together(model: Model, masks: Iterable[tuple[Indexed, ast.expr]]) -> dict[int, Fix | NoFix]:
    """By the start of each subscript that shares its mask with others of its block: the fix for all of them."""
    by_text: dict[tuple[FunctionInfo, str], list[Indexed]] = {}
    for indexed, mask in masks:
        if len(indexed.parts) == 1 and _is_plain(indexed, mask) and _is_named(indexed.function, mask):
            by_text.setdefault((indexed.function, ast.unparse(mask)), []).append(indexed)
    found: dict[int, Fix | NoFix] = {}
    for reads in by_text.values():
        for group in _groups(model, reads):
            # TorchScript does not index by a tuple of tensors.
            fix = _places_first(model, group)
            if fix is not None:
                judged = scripting.judged(model, group.reads[0].function, fix)
                found |= dict.fromkeys((read.site.start for read in group.reads), judged)
    return found


def _is_plain(indexed: Indexed, mask: ast.expr) -> bool:
    """Whether a tensor is indexed, which takes a tuple of places as well, by truth values and not by a single one."""
    held, value = indexed.value(indexed.node.value), indexed.value(mask)
    return held.kind in _INDEXED and not held.mixed and value.dtype == "bool" and value.scalar is not True


def _is_named(function: FunctionInfo, mask: ast.expr) -> bool:
    """Whether the mask is a local name, or one comparison of local names and numbers, as `labels == 0`."""
    parts = list(subtree(mask))
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    chained = any(isinstance(each, ast.Compare) and len(each.ops) > 1 for each in parts)
    elsewhere = (each.names for each in function.nodes if isinstance(each, (ast.Global, ast.Nonlocal)))
    return (
        all(isinstance(each, _COMPARES) for each in parts)
        and not chained
        and names.issubset(function.bound_names)
        and names.isdisjoint(name for each in elsewhere for name in each)
    )


def _groups(model: Model, reads: list[Indexed]) -> Iterator[_Group]:
    names = {*names_in(reads[0].parts[0])}
    waiting = sorted(reads, key=lambda read: read.site.start)
    while len(waiting) > 1:
        first = waiting.pop(0)
        if not _always_runs(first):
            continue
        place = model.place_of(first.statement)
        members, last = [first], place.position
        for read in waiting:
            position = _position_in(model, place.block, read.statement)
            if position is not None and position >= place.position:
                between = place.block[place.position : position + 1]
                if any(names & names_bound_in(each) for each in between):
                    break
                members.append(read)
                last = position
        if len(members) > 1:
            yield _Group(first.parts[0], members, place.block[place.position : last + 1])
            waiting = [read for read in waiting if read not in members]


def _always_runs(read: Indexed) -> bool:
    """Whether the read runs whenever its statement does."""
    parents = read.function.parents
    node = parents[read.node]
    while isinstance(node, ast.expr):
        if isinstance(node, _MAYBE):
            return False
        node = parents[node]
    return isinstance(read.statement, _SIMPLE)


def _position_in(model: Model, block: Sequence[ast.stmt], statement: ast.stmt) -> int | None:
    """The position in the block of the statement that is, or contains, this one."""
    places = model.place_of(statement).outwards()
    return next((place.position for place in places if place.block is block), None)


def _places_first(model: Model, group: _Group) -> Fix | None:
    first = group.reads[0]
    tensors = [each for each in subtree(group.mask) if isinstance(each, ast.Name)]
    if writes.may_write(model, first.function, tensors, group.statements):
        return None
    mask, lines = ast.unparse(group.mask), []
    if not isinstance(group.mask, ast.Name):
        mask = surroundings.new_name(model, first.function, "chosen")
        lines.append(f"{mask} = {edits.text_of(first.site.tree, first.site.node.slice[0].slice.value)}")
    name = surroundings.new_name(model, first.function, f"{mask}_places")
    # A mask without dimensions adds one, and has no places.
    value = first.value(group.mask)
    otherwise = "" if value.scalar is False or value.vector is True else f" if {mask}.dim() else {mask}"
    lines.append(f"{name} = {mask}.nonzero(as_tuple=True){otherwise}")
    changed = edits.together(
        placing.beside(model, first.statement, lines, behind=False),
        *(_through(read, name) for read in group.reads),
    )
    return None if changed is None else Fix("find the mask's places once", Safety.UNSAFE, changed, _ASSUMES)


def _through(read: Indexed, name: str) -> Edit | None:
    subscript = read.site.node
    if not isinstance(subscript, cst.Subscript) or not isinstance(subscript.slice[0].slice, cst.Index):
        return None
    return edits.replace(read.site.tree, subscript.slice[0].slice.value, name)
