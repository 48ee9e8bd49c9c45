"""`for c in range(n): out[labels == c] = table[c]`: a pass over all elements for each label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, NoFix, Rate, Severity
from torchperf_lint.idioms.compute.labelmasks import Use, hot_label_masks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model

_AT_ONCE = {
    Use.COUNTED: "one `scatter_add_` into a vector of zeros counts all labels",
    Use.COUNTED_OF_UNIQUE: "`unique(return_counts=True)` counts all labels",
    Use.WRITTEN_THROUGH: "a table with an entry for each label, indexed by `{tensor}`, gives all at once",
    Use.STACKED: "`{tensor}` compared with all labels by broadcasting, or one-hot, is one operation",
}


@rule(
    code="TPL806",
    name="mask-per-label",
    category=Category.OPS,
    summary="a mask of all elements is made for each label in turn, where one operation does all",
    message="`{mask}` goes over all of `{tensor}` once per label, {where}; {at_once}",
    severity=Severity.NOTE,
    rate=Rate.SEVERAL,
    triggers=("==", "for "),
)
def mask_per_label(model: Model) -> Iterator[Finding]:
    """Comparisons of a device tensor with each label in turn whose masks are counted, written through or stacked."""
    for each in hot_label_masks(model):
        if model.in_test(each.site):
            continue
        fields = {
            "mask": model.brief(each.site.node),
            "tensor": each.tensor,
            "where": each.hot_path.where,
            "at_once": _AT_ONCE[each.use].format(tensor=each.tensor),
        }
        yield Finding(each.site, (*model.value(each.site.node).because, *each.hot_path.because), NoFix.FORM, fields)
