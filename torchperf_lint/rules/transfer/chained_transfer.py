"""`mask.cpu().to(device)`: a tensor is copied to the host and straight back to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.transfer.roundtrips import host_type, round_trips
from torchperf_lint.idioms.writes import writes_in_place
from torchperf_lint.knowledge import torch_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.roundtrips import RoundTrip
    from torchperf_lint.model import Model

_METHODS = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int32": "int"}
_WHOLE = ("int", "uint", "bool")
_MAKES = torch_api.FULL_REDUCTIONS | torch_api.COMPARISONS | {"softmax", "log_softmax", "sigmoid", "argsort"}
_KEPT = frozenset("softmax log_softmax sigmoid norm dist std prod max min amax amin median nanmedian logsumexp".split())
"""Operations whose results are saved for the backward pass, which raises once they are written in place."""


@rule(
    code="TPL207",
    name="chained-transfer",
    category=Category.TRANSFER,
    summary="a tensor is copied from the device to the host and straight back",
    message="`{left}` fetches from the device what `{back}` sends back{waits}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="nothing writes to the result in place, floats that become integers fit, and `.view` needs no copy",
    triggers=((".cpu(", '"cpu', "'cpu", "Tensor"), (".to(", ".cuda(", ".type_as(")),
)
def chained_transfer(model: Model) -> Iterator[Finding]:
    """Moves to the device, in every step, of a tensor that another move in the same step took from it."""
    for trip in round_trips(model):
        move = trip.move
        fields = {
            "left": trip.left,
            "back": f".{shape.method_name(move.call)}(...)" if move.call.args else ".cuda()",
            "waits": "" if move.non_blocking or "non_blocking" in trip.left else ", waiting for both copies",
            "where": move.hot_path.where,
        }
        yield Finding(move.site, (*trip.because, *move.hot_path.because), _stay(model, trip), fields)


def _stay(model: Model, trip: RoundTrip) -> Fix | None:
    """Remove the copy to the host."""
    leaving, tree = trip.leaving, trip.move.site.tree
    if leaving is None or not tree.lossless or edits.has_comment(tree, leaving):
        return None
    inner = shape.receiver(leaving)
    assert inner is not None
    cast = _cast(model, trip, leaving)
    if cast is None:
        return None
    start = tree.outer_span(inner)[1]
    edit = Edit(start, tree.span(leaving)[1], cast.encode())
    return Fix("leave the tensor on the device", _grade(model, trip, inner, cast), (edit,))


def _cast(model: Model, trip: RoundTrip, leaving: cst.Call) -> str | None:
    """The cast in the copy to the host: `.long()` for `.type(torch.LongTensor)`; None if unclear."""
    wanted = host_type(model, leaving)
    if wanted is not None:
        return f".{_METHODS[wanted]}()" if wanted in _METHODS else None
    # `x.cpu(torch.contiguous_format)` does more than copy.
    return "" if len(leaving.args) <= (shape.method_name(leaving) == "to") else None


def _grade(model: Model, trip: RoundTrip, inner: cst.BaseExpression, cast: str) -> Safety:
    """SAFE where the tensor cannot be told from a copy: arithmetic consumes the result, or the tensor is new."""
    whole = (model.value(inner).dtype or "").startswith(_WHOLE)
    casts = [*(["cast"] if cast else []), *(shape.method_name(step) or "" for step in trip.steps)]
    only_detached = all(name in ("detach", "contiguous", "clone") for name in casts)
    alike = whole or (only_detached and _keeps_floats(model, trip, inner))
    taken = _is_taken_by_arithmetic(model, trip.move.call) and not _is_written(model, trip, inner)
    fresh = taken or _is_made_here(inner, whole)
    return Safety.SAFE if fresh and alike and _keeps_layout(trip) else Safety.UNSAFE


def _keeps_floats(model: Model, trip: RoundTrip, inner: cst.BaseExpression) -> bool:
    """Whether the copy back does not cast floats to integers: out-of-range values differ between host and device."""
    move = trip.move
    given = move.dtype or (move.device if move.like else None)
    if given is None:
        return True
    dtype = model.value(given).dtype or ""
    return dtype.startswith(("float", "bfloat")) or (move.like and shape.dotted(given) == _root(inner))


def _root(node: cst.BaseExpression) -> str | None:
    """`x` of `x.detach()[0]`."""
    while shape.dotted(node) is None:
        inner = node.value if isinstance(node, cst.Subscript) else None
        if isinstance(node, cst.Call):
            inner = shape.receiver(node)
        if inner is None:
            return None
        node = inner
    return shape.dotted(node)


def _is_written(model: Model, trip: RoundTrip, inner: cst.BaseExpression) -> bool:
    """Whether the function writes in place to the tensor, which the arithmetic may have saved for the backward pass."""
    root = _root(inner)
    return root is not None and writes_in_place(model, root, trip.move.site)


def _is_made_here(node: cst.BaseExpression, whole: bool) -> bool:
    """`x > 0`, `x.argmax(1)`: a new tensor with its own memory and no other name, not saved for a backward pass."""
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation)) and isinstance(node.operator, (cst.Power, cst.Plus)):
        return False  # `2 ** x` is saved, and `+x` is x itself
    if not isinstance(node, cst.Call) or shape.receiver(node) is None or shape.argument(node, "out") is not None:
        return _is_arithmetic(node)
    name = shape.method_name(node)
    return name in _MAKES and (whole or name not in _KEPT)


def _is_taken_by_arithmetic(model: Model, move: cst.Call) -> bool:
    """Whether an operation computes a new tensor from the moved one."""
    parent = model.parent(move)
    if isinstance(parent, cst.UnaryOperation):
        return not isinstance(parent.operator, cst.Plus)
    operator = parent.operator if isinstance(parent, cst.ComparisonTarget) else None
    if isinstance(parent, cst.Comparison):
        operator = parent.comparisons[0].operator
    return _is_arithmetic(parent) and not isinstance(operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn))


def _is_arithmetic(node: cst.CSTNode | None) -> bool:
    return isinstance(node, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.UnaryOperation))


def _keeps_layout(trip: RoundTrip) -> bool:
    """Whether no step depends on the memory layout, because the copy may have strides that the tensor lacks."""
    return all(shape.method_name(step) not in ("view", "view_as") for step in trip.steps)
