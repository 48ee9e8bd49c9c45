"""The edits that build a tensor on the device by the call that builds it on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, NoFix, Safety
from torchperf_lint.idioms import writes
from torchperf_lint.idioms.aliases import memory_of
from torchperf_lint.idioms.transfer.construction import (
    ALIASING_STEPS,
    FILLABLE,
    device_text,
    fits_every_dtype,
    in_format_string,
    may_wrap,
)
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.construction import Built
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model

_ASK_LAYOUT = frozenset("view as_strided stride is_contiguous data_ptr storage untyped_storage".split())
_TAKES_ANY_DTYPE = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
_SAME_WHEN_FILLED: dict[float | None, str] = {0: "zeros", 1: "ones"}


def build_there(model: Model, move: Move, built: Built) -> tuple[tuple[Edit, ...], Safety] | NoFix:
    """Give the factory the move's device and delete the move, with the best grade that these edits alone allow."""
    tree = move.site.tree
    place = device_text(model, move)
    if place is None:
        return NoFix.DEVICE_NOT_AT_HAND
    if not move.plain:
        return NoFix.FORM
    if _shares_rows(move.moved) and _needs_own_rows(model, move):
        return NoFix.USED_OTHERWISE
    if not tree.lossless or in_format_string(model, move.site.node):
        return NoFix.NO_ROOM
    text, grade = place
    cast_to = move.device if move.like else move.dtype
    if cast_to is not None and may_wrap(model, move.moved, model.value(cast_to).dtype):
        grade = grade.at_worst(Safety.UNSAFE)
    dtype, rest = _dtype(model, move, built), ""
    arguments, own = f"device={text}", _own_dtype(built)
    if dtype is not None:
        takes_it = built.ref in _TAKES_ANY_DTYPE or _packs_exact_number(model, built)
        into_factory = built.bare and takes_it and shape.argument(built.call, "dtype") is None
        if into_factory:
            arguments, own = f"{arguments}, dtype={dtype}", None
        else:
            rest = f".to({dtype})"
    if own is not None:
        torch = model.name_of("torch", move.site)
        if torch is None:
            return NoFix.NO_ROOM
        arguments = f"dtype={torch}.{own}, {arguments}"
    added = edits.add_argument(tree, built.call, arguments)
    dropped = _drop_call(model, move, rest)
    named = _filled_by_name(model, move, built) if built.sized else ()
    changed = edits.together(named, added, dropped)
    return NoFix.NO_ROOM if changed is None else (changed, grade)


def _filled_by_name(model: Model, move: Move, built: Built) -> tuple[Edit, ...] | None:
    """`torch.zeros(b, n)` for `torch.LongTensor(b, n).fill_(0)`; `torch.empty(b, n)` where another number is filled."""
    tree, torch = move.site.tree, model.name_of("torch", move.site)
    method = model.parent(built.call)
    fill = None if method is None else model.parent(method)
    if torch is None or built.call.lpar or not isinstance(fill, cst.Call) or fill.lpar:
        return None
    number = fill.args[0].value
    name = _SAME_WHEN_FILLED.get(number.evaluated_value if isinstance(number, (cst.Integer, cst.Float)) else None)
    start, end = tree.span(built.call)[1], tree.span(fill)[1]
    changed = edits.replace(tree, built.call.func, f"{torch}.{name or 'empty'}")
    if changed is None or b"#" in tree.source.utf8[start:end]:
        return None
    return (changed,) if name is None else (changed, Edit(start, end, b""))


def _shares_rows(node: cst.BaseExpression) -> bool:
    """Whether rows of a chain's result are one in memory (`expand`), until the move gives each its own."""
    while isinstance(node, (cst.Call, cst.Subscript)):
        if isinstance(node, cst.Call) and shape.method_name(node) in ALIASING_STEPS:
            return True
        inner = node.value if isinstance(node, cst.Subscript) else shape.receiver(node)
        if inner is None:
            return False
        node = inner
    return False


def _needs_own_rows(model: Model, move: Move) -> bool:
    """Whether the function writes to what is moved, or asks for its layout."""
    function, moved = model.function_of(move.site), model.ast_of(move.call)
    written = [each for each, _ in (*writes.written_in(function), *writes.handed_to_writers(model, function))]
    asked = [each.value for each in function.nodes if isinstance(each, ast.Attribute) and each.attr in _ASK_LAYOUT]
    return any(
        shared is moved for each in (*written, *asked) for shared in memory_of(model, function, each, on_device=True)
    )


def _own_dtype(built: Built) -> str | None:
    """The dtype of a typed constructor, if `torch.full`, or `torch.ones` for `True`, does not take it of itself."""
    dtype, data = FILLABLE.get(built.ref), built.call.args[0].value if built.packs and built.call.args else None
    number = data.elements[0].value if isinstance(data, cst.List) and data.elements else None
    number = number.expression if isinstance(number, cst.UnaryOperation) else number
    is_default = isinstance(number, cst.Float) or shape.is_literal(number, "True") or shape.is_literal(number, "False")
    return None if dtype == FILLABLE["torch.Tensor"] and (is_default or built.sized) else dtype


def _packs_exact_number(model: Model, built: Built) -> bool:
    """Whether it packs a number literal that every dtype represents, so that it need not pass through its own."""
    node = built.call.args[0].value if built.packs and len(built.call.args) == 1 else None
    if isinstance(node, cst.List) and len(node.elements) == 1:
        node = node.elements[0].value
    return node is not None and fits_every_dtype(model, node)


def _dtype(model: Model, move: Move, built: Built) -> str | None:
    if move.like:
        assert move.device is not None
        return f"{model.text(move.device)}.dtype"
    return None if move.dtype is None else model.text(move.dtype)


def _drop_call(model: Model, move: Move, rest: str) -> tuple[Edit, ...] | None:
    """Replace `.to(...)` after its receiver by `rest`, with the parentheses that only the call needed."""
    tree, moved = move.site.tree, move.moved
    (before, start), end = tree.outer_span(moved), tree.span(move.site.node)[1]
    if b"#" in tree.source.utf8[start:end]:
        return None
    is_alone = isinstance(model.parent(move.site.node), (cst.Assign, cst.Arg, cst.Return)) and not rest
    is_sum = isinstance(moved, cst.BinaryOperation) and len(moved.lpar) == 1
    follows_word = tree.source.utf8[before - 1 : before].isalnum()  # `return(n + 1).to(d)`
    if not is_alone or not is_sum or follows_word or b"\n" in tree.source.utf8[before:start]:
        return (Edit(start, end, rest.encode()),)
    first, last = tree.span(moved)
    return Edit(before, first, b""), Edit(last, end, b"")
