"""`mask.float().to(device)`: a cast enlarges a tensor before its copy, or shrinks it only afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms.transfer.casts import cast_copies
from torchperf_lint.idioms.writes import host_batch_written_after, writes_in_place
from torchperf_lint.model.domain.values import Origin
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.casts import CastCopy
    from torchperf_lint.model import Model


@rule(
    code="TPL206",
    name="cast-side-of-transfer",
    category=Category.TRANSFER,
    summary="a cast before or after a copy makes the copy larger than needed",
    message="`{call}` copies {more} bytes per element, where {less} would do, {where}",
    severity=Severity.WARNING,
    loses=Loss.BYTES,
    fix=Safety.SAFE,
    assumes="floats that become integers fit, and nothing writes to the tensor before it is copied",
    triggers=((".to(", ".cuda(", ".cpu("),),
)
def cast_side_of_transfer(model: Model) -> Iterator[Finding]:
    """Copies between host and device, in every step, that would be smaller with the adjacent cast on the other side."""
    for each in cast_copies(model):
        more, less = each.bytes_sent
        if less >= more or _keeps_batch_pinned(model, each):
            continue
        fields = {
            "call": model.brief(each.site.node),
            "more": str(more),
            "less": str(less),
            "where": each.hot_path.where,
        }
        yield Finding(each.site, (*each.because, *each.hot_path.because), _change_sides(model, each), fields)


def _keeps_batch_pinned(model: Model, each: CastCopy) -> bool:
    """Whether a host-side cast would copy a loader's batch out of pinned memory, which an asynchronous copy needs."""
    return each.to_device and not each.cast_first and model.value(each.tensor).origin is Origin.BATCH


def _change_sides(model: Model, each: CastCopy) -> Fix | None:
    tree = each.site.tree
    if each.apart or not tree.lossless or edits.has_comment(tree, each.site.node):
        return None
    start, end = tree.outer_span(each.tensor)[1], each.site.end
    if each.merged:
        text = _split(model, each)
    else:
        source = tree.source.utf8
        between = tree.outer_span(each.cast if each.cast_first else each.copy)[1]
        text = (source[between:end] + source[start:between]).decode()
    if text is None or "\n" in text:
        return None
    title = "cast after the copy" if each.cast_first else "cast before the copy"
    return Fix(title, _grade(model, each), (Edit(start, end, text.encode()),))


def _split(model: Model, each: CastCopy) -> str | None:
    """`.to(device).to(torch.float32)` for `.to(device, torch.float32)`."""
    given = [(argument.keyword.value if argument.keyword else None, argument.value) for argument in each.copy.args]
    if len(given) != 2 or shape.method_name(each.copy) != "to":
        return None
    place, dtype = (model.text(value) for _, value in given)
    names = [name for name, _ in given]
    if names not in ([None, None], [None, "dtype"], ["device", "dtype"]):
        return None
    return f".to({place}).to({dtype})"


def _grade(model: Model, each: CastCopy) -> Safety:
    """SAFE where both sides cast alike and an asynchronous copy still finds the tensor unchanged."""
    path = shape.dotted(each.tensor)
    waits = all(argument.keyword is None or argument.keyword.value != "non_blocking" for argument in each.copy.args)
    written = host_batch_written_after(model, each.site) or path is None or writes_in_place(model, path, each.site)
    return Safety.SAFE if each.exact and (waits or not written) else Safety.UNSAFE
