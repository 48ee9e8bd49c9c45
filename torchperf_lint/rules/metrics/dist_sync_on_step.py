"""`Accuracy(..., dist_sync_on_step=True)` called in every step: all processes wait for each other, and update twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.metrics.metric_calls import FORWARD, made_with
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.metrics.metric_calls import Made
    from torchperf_lint.model import Model

_ARGUMENT = "dist_sync_on_step"


@rule(
    code="TPL307",
    name="dist-sync-on-step",
    category=Category.METRICS,
    summary="a torchmetrics metric gathers its state from all processes in every step",
    message="`{metric}` gathers its state from all processes and updates twice {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="nothing needs the value of a single step from all processes",
    costs_at_use=True,
    triggers=("torchmetrics", _ARGUMENT),
)
def dist_sync_on_step(model: Model) -> Iterator[Finding]:
    """Metrics with `dist_sync_on_step=True` that hot code calls."""
    for made in made_with(model, _ARGUMENT):
        argument = _argument(made)
        if argument is None or model.value(argument.value).constant is not True:
            continue
        for name, site in model.object_calls(made.metric)[0]:
            hot_path = model.hot_path(site) if name in FORWARD else None
            if hot_path is None:
                continue
            called = Because(site.rows[0], f"called here by `{model.text(site.node.func)}(...)`")
            fields = {"metric": made.class_name, "where": hot_path.where}
            yield Finding(made.site, (called, *hot_path.because), _leave_out(made, argument), fields)
            break


def _argument(made: Made) -> cst.Arg | None:
    call = made.site.node
    assert isinstance(call, cst.Call)
    return next((each for each in call.args if each.keyword is not None and each.keyword.value == _ARGUMENT), None)


def _leave_out(made: Made, argument: cst.Arg) -> Fix | None:
    """Remove the argument: the metric then gathers in `compute`."""
    edit = edits.drop_argument(made.site.tree, made.site.node, argument)
    return None if edit is None else Fix("gather when the value is asked for", Safety.UNSAFE, (edit,))
