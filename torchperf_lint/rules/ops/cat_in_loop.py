"""`all_scores = torch.cat([all_scores, scores])` in every pass: everything gathered so far is copied again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Loss, Severity
from torchperf_lint.idioms.compute.growing import growth

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model

_JOINS = tuple(f"torch.{name}" for name in ("cat", "concat", "concatenate", "hstack", "vstack", "row_stack")) + tuple(
    f"numpy.{name}" for name in ("append", "concatenate", "hstack", "vstack")
)


@rule(
    code="TPL802",
    name="cat-in-loop",
    category=Category.OPS,
    summary="a tensor is concatenated with something new on every pass of a loop that only gathers it",
    message="`{call}` copies all that `{name}` has gathered so far, again {where}",
    severity=Severity.WARNING,
    loses=Loss.BYTES,
    triggers=(("cat(", "concat(", "concatenate(", "stack(", "append("),),
)
def cat_in_loop(model: Model) -> Iterator[Finding]:
    """Concatenations that a batch loop only extends and does not read."""
    for site in model.calls(*_JOINS, hot=True, near_device=False):
        hot_path = model.hot_path(site)
        name = None if hot_path is None or hot_path.loop is None else growth(model, site, hot_path.loop)
        if name is not None and hot_path is not None and not model.in_test(site):
            fields = {"call": model.brief(site.node), "name": name, "where": hot_path.where}
            yield Finding(site, hot_path.because, None, fields)
