"""`MeanMetric(nan_strategy="disable")` updated with weights: torchmetrics replaces them by ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics import aggregators
from torchperf_lint.idioms.metrics.metric_calls import FORWARD, made
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import Made
    from torchperf_lint.model import Model


@rule(
    code="TPL311",
    name="metric-weight-ignored",
    category=Category.METRICS,
    summary="a mean that does not test for NaN silently ignores its weights",
    message='`{metric}` made with `nan_strategy="disable"` leaves the weight `{weight}` out of its mean',
    severity=Severity.ERROR,
    costs=False,
    fix=Safety.SHOWN,
    cpu_only_too=True,
    triggers=("torchmetrics", tuple(sorted(torchmetrics_api.AVERAGES)), "disable"),
    torchmetrics=torchmetrics_api.IGNORES_WEIGHT,
)
def metric_weight_ignored(model: Model) -> Iterator[Finding]:
    """Weights passed to means whose NaN test is disabled."""
    found: dict[int, Finding] = {}
    for each in made(model):
        if (
            each.class_name not in torchmetrics_api.AVERAGES
            or aggregators.nan_strategy(model, each.metric) != "disable"
        ):
            continue
        shown = Because(each.site.rows[0], f'`{each.class_name}` is made with `nan_strategy="disable"` here')
        for name, site in model.object_calls(each.metric)[0]:
            weight = shape.argument(site.node, "weight", 1) if name in ("update", *FORWARD) else None
            if not isinstance(weight, cst.BaseExpression) or not aggregators.is_weight(model, weight):
                continue
            fields = {"metric": each.class_name, "weight": model.text(weight)}
            place = model.site(weight)
            found.setdefault(place.start, Finding(place, (shown,), _test_again(model, each), fields))
    yield from (found[start] for start in sorted(found))


def _test_again(model: Model, each: Made) -> Fix | None:
    """Remove the strategy: the NaN test makes the host wait, but respects the weights."""
    given = aggregators.strategy_argument(each.site, each.metric)
    if not isinstance(given, cst.BaseExpression) or not isinstance(given, cst.SimpleString):
        return None
    edit = edits.replace(each.site.tree, given, '"warn"')
    title = "let it test for NaN again, which keeps the weights and waits for the device"
    return None if edit is None else Fix(title, Safety.SHOWN, (edit,))
