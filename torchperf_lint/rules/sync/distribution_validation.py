"""`Categorical(logits=model(x))` in every step: each parameter is checked, and the host waits for the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.knowledge.distributions_api import CHECKED, SWITCHES_ALL
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL114",
    name="distribution-validation",
    category=Category.SYNC,
    summary="a distribution checks its parameters in every step, and the host waits for the answer",
    message="`{call}` checks its parameters on the device and waits for the answer {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    torch=">=1.8",
    triggers=("distributions",),
)
def distribution_validation(model: Model) -> Iterator[Finding]:
    """Distributions over device tensors, created in every step without an explicit `validate_args`."""
    if model.called_anywhere(*SWITCHES_ALL):
        return
    for site in model.calls(*CHECKED, hot=True):
        position = CHECKED[model.value(site.node.func).ref or ""]
        if shape.argument(site.node, "validate_args", position) is not None:
            continue
        because, hot_path = _parameter_on_device(model, site), model.hot_path(site)
        if because is None or hot_path is None or surroundings.may_be_caught(model, site):
            continue
        changed = edits.add_argument(site.tree, site.node, "validate_args=False")
        fix = None if changed is None else Fix("leave the check out", Safety.UNSAFE, changed)
        fields = {"call": model.brief(site.node), "where": hot_path.where}
        yield Finding(site, (*because, *hot_path.because), fix, fields)


def _parameter_on_device(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that a parameter is on the device; other parameters are moved there before the check."""
    shown = (model.on_device(argument.value) for argument in site.node.args)
    return next((because for because in shown if because is not None), None)
