"""`for x, n in zip(xs, lengths): x[:n]`: the lengths of all passes are read at once, before the loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.sync.sized_once import is_size
from torchperf_lint.idioms.sync.walks import (
    around,
    is_left_alone,
    loads_in,
    may_be_written,
    walk_that_binds,
    walked,
)
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "read all of them at once, before the loop"
_ASSUMES = "`{name}` is a vector of int64 before the loop, and nothing writes to it or binds it while the loop runs"
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_ARITHMETIC = (ast.BinOp, ast.UnaryOp)


def read_before_walk(model: Model, place: Costly) -> Fix | NoFix:
    """`lengths.tolist()` for `lengths` where a loop walks it, or `numbers[i]` for `lengths[i]` where it counts."""
    function = model.function_of(place.site)
    fixes = [
        fix
        for node in _of_device(model, function, place)
        if (fix := _by_item(model, function, node) or _by_index(model, function, node)) is not None
    ]
    return judged(model, function, fixes[0]) if len(fixes) == 1 else NoFix.INDEX_FROM_DEVICE


def _of_device(model: Model, function: FunctionInfo, place: Costly) -> list[ast.expr]:
    """The parts of an index or a size that are read: `n` and `offsets[i]` of `n + offsets[i]`."""
    whole = model.ast_of(place.site.node)
    found = next((each for each in subtree(whole) if ast.unparse(each) == place.part), None) if whole else None
    leaves = [] if not isinstance(found, ast.expr) else list(_leaves(found))
    return [each for each in leaves if model.value_in(function, each).device.on_accelerator]


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, _ARITHMETIC):
        for each in (node.left, node.right) if isinstance(node, ast.BinOp) else (node.operand,):
            yield from _leaves(each)
    else:
        yield node


# -- the items of a walk --------------------------------------------------------------------------------------------


def _by_item(model: Model, function: FunctionInfo, node: ast.expr) -> Fix | None:
    """Walk a list of numbers in the place of the tensor, if each item is a size or a bound wherever it is used."""
    walk = walk_that_binds(function, node, node.id) if isinstance(node, ast.Name) else None
    if walk is None or not isinstance(node, ast.Name):
        return None
    given, before = walked(model, walk.target, walk.iter, node.id), around(function, walk)
    if given is None or before is None or not is_left_alone(model, function, given, before):
        return None
    if may_be_written(model, function, given, before):
        return None
    loads = loads_in(function, node, before[1])
    if loads is None or not all(_is_number(model, function, each) for each in loads):
        return None
    at = model.site_at(given, before[0])
    edit = None if at is None else edits.replace(at.tree, at.node, f"{edits.postfix(at.tree, at.node)}.tolist()")
    if edit is None:
        return None
    return Fix(_TITLE, Safety.UNSAFE, (edit,), _ASSUMES.format(name=ast.unparse(given)))


def _is_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a use is a size, a bound, or arithmetic for one: there a number is what an element of a tensor is."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.BinOp):
        other = model.value_in(function, parent.right if parent.left is node else parent.left)
        is_whole = (other.kind is Kind.NUMBER or other.is_tensor) and (other.dtype or "").startswith("int")
        return is_whole and isinstance(parent.op, _WHOLE) and _is_number(model, function, parent)
    if isinstance(parent, ast.UnaryOp):
        return _is_number(model, function, parent)
    return is_size(model, function, node)


# -- the elements of a count ----------------------------------------------------------------------------------------


def _by_index(model: Model, function: FunctionInfo, node: ast.expr) -> Fix | None:
    """`lengths_numbers = lengths.tolist()` before the loop, and `lengths_numbers[i]` for `lengths[i]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name) or dotted(node.value) is None:
        return None
    walk = walk_that_binds(function, node, node.slice.id)
    before = None if walk is None else around(function, walk)
    if before is None or not is_left_alone(model, function, node.value, before):
        return None
    if may_be_written(model, function, node.value, before):
        return None
    statement, _ = before
    if not _is_number(model, function, node) or model.value_in(function, node.slice).dtype != "int":
        return None
    name = model.remember(
        ("bounds before the loop", statement, ast.unparse(node.value)),
        lambda: surroundings.new_name(model, function, f"{last_name(node.value)}_numbers"),
    )
    at = model.site_at(node, surroundings.statement_around(function, node))
    if at is None:
        return None
    changed = edits.together(
        placing.beside(model, statement, [f"{name} = {ast.unparse(node.value)}.tolist()"], behind=False),
        edits.replace(at.tree, at.node, f"{name}[{node.slice.id}]"),
    )
    if changed is None:
        return None
    return Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES.format(name=ast.unparse(node.value)))
