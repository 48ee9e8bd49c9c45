"""`mask.cpu().to(device)`: a tensor is brought to the host and sent straight back to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.roundtrips import host_type, round_trips
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.roundtrips import RoundTrip

_METHODS = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int32": "int"}
_WHOLE = ("int", "uint", "bool")
_MAKES = torch_api.FULL_REDUCTIONS | torch_api.COMPARISONS | {"softmax", "log_softmax", "sigmoid", "argsort"}


@rule(
    code="TPL207",
    name="chained-transfer",
    category=Category.TRANSFER,
    summary="a tensor is copied from the device to the host and straight back",
    message="`{left}` fetches from the device what `{back}` sends back{waits}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    triggers=((".cpu(", '"cpu', "'cpu", "Tensor"), (".to(", ".cuda(", ".type_as(")),
)
def chained_transfer(model: Model) -> Iterator[Finding]:
    """Moves to the device, in every step, of what another move in the same step has just taken from it."""
    for trip in round_trips(model):
        move = trip.move
        fields = {
            "left": trip.left,
            "back": f".{shape.method_name(move.call)}(...)" if move.call.args else ".cuda()",
            "waits": "" if move.non_blocking or "non_blocking" in trip.left else ", waiting for both copies",
            "where": move.heat.where,
        }
        yield Finding(move.site, (*trip.because, *move.heat.because), _stay(model, trip), fields)


def _stay(model: Model, trip: RoundTrip) -> Fix | None:
    """Leave the way to the host out."""
    leaving, tree = trip.leaving, trip.move.site.tree
    if leaving is None or not tree.lossless or edits.has_comment(tree, leaving):
        return None
    inner = shape.receiver(leaving)
    assert inner is not None
    cast = _cast(model, trip, leaving)
    if cast is None:
        return None
    start = tree.span(inner)[1] + sum(len(edits.code_of(paren)) for paren in inner.rpar)
    edit = Edit(start, tree.span(leaving)[1], cast.encode())
    return Fix("leave the tensor on the device", _grade(model, trip, inner, cast), (edit,))


def _cast(model: Model, trip: RoundTrip, leaving: cst.Call) -> str | None:
    """What the way to the host does to the dtype: `.long()` for `.type(torch.LongTensor)`; None if that is unclear."""
    wanted = host_type(model, leaving)
    if wanted is not None:
        return f".{_METHODS[wanted]}()" if wanted in _METHODS else None
    return "" if len(leaving.args) <= 1 else None


def _grade(model: Model, trip: RoundTrip, inner: cst.BaseExpression, cast: str) -> Safety:
    """SAFE where nobody can tell the tensor from a copy: arithmetic takes the result, or it was made just now."""
    whole = (model.value(inner).dtype or "").startswith(_WHOLE)
    casts = [*(["cast"] if cast else []), *(shape.method_name(step) or "" for step in trip.steps)]
    only_detached = all(name in ("detach", "contiguous", "clone") for name in casts)
    parent = model.parent(trip.move.site.node)
    fresh = _is_arithmetic(parent) or _is_made_here(inner)
    return Safety.SAFE if fresh and (only_detached or whole) and _keeps_layout(trip) else Safety.UNSAFE


def _is_made_here(node: cst.BaseExpression) -> bool:
    """`x > 0`, `x.argmax(1)`: a tensor of its own memory, that has no other name."""
    made = isinstance(node, cst.Call) and shape.receiver(node) is not None and shape.method_name(node) in _MAKES
    return made or _is_arithmetic(node)


def _is_arithmetic(node: cst.CSTNode | None) -> bool:
    return isinstance(node, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.UnaryOperation))


def _keeps_layout(trip: RoundTrip) -> bool:
    """Whether no step asks how the copy lies in memory, which may have gaps where the tensor is."""
    return all(shape.method_name(step) not in ("view", "view_as") for step in trip.steps)
