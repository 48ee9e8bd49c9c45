"""`model.eval()` and a loop over batches without `torch.no_grad()`: graphs for a backward pass that never runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.compute.gradmode import recorded_evaluations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL701",
    name="grad-enabled-inference",
    category=Category.MEMORY,
    summary="a model is evaluated while its operations are recorded for a backward pass",
    message="`{call}` records a graph, with all that its backward pass would need, {where}",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    assumes="nothing goes backward through what the function gives back",
    triggers=(".eval()", "for "),
)
def grad_enabled_inference(model: Model) -> Iterator[Finding]:
    """Loops that run an evaluated model, in functions that no caller calls with grad mode off."""
    for found in recorded_evaluations(model):
        fix = None
        if found.decorate is not None:
            fix = Fix("evaluate without recording gradients", Safety.UNSAFE, (found.decorate,))
        yield Finding(
            found.site, found.because, fix, {"call": model.brief(found.site.node), "where": found.hot_path.where}
        )
