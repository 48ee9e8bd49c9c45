"""`x[mask] = y[mask]`: elements of one tensor in the places of another, which the device can choose without a count."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating, surroundings
from torchperf_lint.idioms.layout import has_own_elements
from torchperf_lint.idioms.scripting import is_scripted
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_bound_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model

_TITLE = "choose between the two tensors on the device"
_NO_COMPARISONS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_ASSUMES = "the mask and both tensors have one shape, and no two elements of the one written to share memory"


def chosen_by_mask(model: Model, indexed: Indexed) -> Fix | NoFix:
    """`x.copy_(torch.where(mask, y, x))` for `x[mask] = y[mask]`, at either subscript.

    Both are chosen from by the mask, so it cannot have more dimensions than they; if it compares them, it has no fewer.
    """
    statement, function = indexed.statement, indexed.function
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return NoFix.SIZE_IN_THE_DATA
    target, given = statement.targets[0], statement.value
    if not isinstance(target, ast.Subscript) or not isinstance(given, ast.Subscript):
        return NoFix.SIZE_IN_THE_DATA
    written, mask = target.value, target.slice
    if ast.unparse(mask) != ast.unparse(given.slice) or not isinstance(written, ast.Name):
        return NoFix.SIZE_IN_THE_DATA
    if not isinstance(mask, (ast.Name, ast.Compare)) or not model.value_in(function, written).holds_tensors:
        return NoFix.FORM
    if not model.value_in(function, given.value).holds_tensors:
        return NoFix.FORM
    if not all(evaluating.only_computes(model, function, each) for each in (mask, given.value)):
        return NoFix.FORM
    if model.value_in(function, written).kind is not Kind.TENSOR and is_scripted(model, function):
        return NoFix.SCRIPTED
    torch, source = model.name_of("torch", indexed.site), model.source
    if torch is None or not indexed.site.tree.lossless:
        return NoFix.NO_ROOM
    mask_text, given_text = (ast.unparse(each) for each in (mask, given.value))
    start = source.offset(statement.lineno, statement.col_offset)
    end = source.offset(statement.end_lineno or statement.lineno, statement.end_col_offset or 0)
    if b"#" in source.utf8[start:end] or b"\n" in source.utf8[start:end]:
        return NoFix.NO_ROOM
    text = f"{written.id}.copy_({torch}.where({mask_text}, {given_text}, {written.id}))"
    known = _compares(model, indexed, mask, written, given.value) and has_own_elements(model, function, written)
    grade = Safety.SAFE if known and not surroundings.may_be_caught(model, indexed.site) else Safety.UNSAFE
    return Fix(_TITLE, grade, (Edit(start, end, text.encode()),), _ASSUMES)


def _compares(model: Model, indexed: Indexed, mask: ast.expr, written: ast.Name, given: ast.expr) -> bool:
    """Whether the mask compares the two tensors, in the same block, and the names hold them since.

    It has as many dimensions as the one with more, and no more than either: so all have one shape.
    """
    if not isinstance(given, ast.Name):
        return False
    if isinstance(mask, ast.Name):
        made = model.only_binding(indexed.function, mask.id)
        place = model.place_of(indexed.statement)
        since = next((at for at, each in enumerate(place.before) if made in subtree(each)), None)
        if made is None or since is None:
            return False
        if any({written.id, given.id} & names_bound_in(each) for each in place.before[since:]):
            return False
        mask = made
    if not isinstance(mask, ast.Compare) or len(mask.ops) != 1 or isinstance(mask.ops[0], _NO_COMPARISONS):
        return False
    sides = [each.id for each in (mask.left, mask.comparators[0]) if isinstance(each, ast.Name)]
    return sorted(sides) == sorted((written.id, given.id))
