"""`x.nonzero()`, `torch.unique(x)`: the result's size depends on the data, and the host waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.sync import sizes
from torchperf_lint.knowledge.torch_api import SIZE_ARGUMENTS
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL111",
    name="dynamic-shape-op",
    category=Category.SYNC,
    summary="an operation whose result size depends on the data makes the host wait in every step",
    message="`{call}` waits for the device to know the size of its result, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="no graph that is traced or exported has to serve another size",
    triggers=(
        ("nonzero", "argwhere", "where(", "masked_select", "unique", "bincount", "one_hot", "repeat_interleave"),
    ),
)
def dynamic_shape_op(model: Model) -> Iterator[Finding]:
    """Searches, selections and counts over device tensors, unless the call passes the size."""
    for site, because in sizes.hot_calls_sized_by_data(model):
        hot_path = model.hot_path(site)
        if hot_path is not None:
            fields = {"call": model.brief(site.node), "where": hot_path.where}
            fix = _with_size(model, site)
            yield Finding(site, (*because, *hot_path.because), fix, fields)


def _with_size(model: Model, site: Site) -> Fix | NoFix:
    """Pass the size where the function has already read it."""
    known = sizes.size_read_before(model, site)
    argument, _ = SIZE_ARGUMENTS.get(shape.method_name(site.node) or "", (None, None))
    if known is None or argument is None:
        return NoFix.SIZE_IN_THE_DATA
    if not model.keeps_builtin("int"):
        return NoFix.NO_ROOM
    changed = edits.add_argument(site.tree, site.node, f"{argument}={known}")
    # In a traced graph the size would be a constant.
    grade = Safety.UNSAFE if model.may_be_traced else Safety.SAFE
    return NoFix.NO_ROOM if changed is None else Fix("hand over the size that has been read", grade, changed)
