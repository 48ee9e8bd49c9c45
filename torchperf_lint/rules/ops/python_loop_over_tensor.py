"""`for i in range(x.shape[0]): y[i] = x[i].softmax(0)`: a few kernels per row, where one could do all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Rate, Severity
from torchperf_lint.idioms.compute.rowloops import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL801",
    name="python-loop-over-tensor",
    category=Category.OPS,
    summary="a loop in Python computes the same for each row of a tensor",
    message="this loop launches its kernels anew for each row of `{tensor}`, {where}",
    severity=Severity.NOTE,
    rate=Rate.ELEMENT,
    default=False,
    triggers=("range(", (".shape[", ".size(", "len(")),
)
def python_loop_over_tensor(model: Model) -> Iterator[Finding]:
    """Hot loops over the rows of a device tensor whose only statement computes one row with torch's operations."""
    for site in model.builtin_calls("range"):
        tensor = rows_of(model, site)
        hot_path = None if tensor is None else model.hot_path(site)
        if tensor is not None and hot_path is not None and not model.in_test(site):
            yield Finding(site, hot_path.because, None, {"tensor": tensor, "where": hot_path.where})
