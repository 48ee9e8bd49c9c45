"""`accelerator.gather(loss.repeat(n)).mean()` in every step: a collective for a number that is only displayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.distributed.reductions import reduced_loss
from torchperf_lint.syntax import shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_COLLECTIVES = ("torch.distributed.all_reduce", "torch.distributed.reduce")


@rule(
    code="TPL505",
    name="per-step-metric-reduction",
    category=Category.DISTRIBUTED,
    summary="a loss is reduced across all processes in every step, only to be logged",
    message="`{call}` is a collective {where}, for a number that is only shown",
    severity=Severity.WARNING,
    triggers=(("sync_dist", "reduce(", ".gather("), ("backward(", "training_step")),
)
def per_step_metric_reduction(model: Model) -> Iterator[Finding]:
    """Collectives on copies of a training loss in every step, and Lightning's `sync_dist` for per-step values."""
    for site in model.calls(*_COLLECTIVES, hot=True, near_device=False):
        if reduced_loss(model, site, in_place=True) is not None:
            yield from _reported(model, site)
    for site in model.method_calls("gather", "reduce"):
        owner = shape.dotted(shape.receiver(site.node)) or ""  # type: ignore[arg-type]
        if "accelerator" in owner.rpartition(".")[2].lower() and reduced_loss(model, site, in_place=False) is not None:
            yield from _reported(model, site)
    for site in model.method_calls("log", "log_dict"):
        if _logs_steps(model, site):
            yield from _reported(model, site)


def _reported(model: Model, site: Site) -> Iterator[Finding]:
    hot_path = model.hot_path(site)
    if hot_path is not None and not model.in_test(site):
        yield Finding(site, hot_path.because, None, {"call": model.brief(site.node), "where": hot_path.where})


def _logs_steps(model: Model, site: Site) -> bool:
    """`self.log(..., sync_dist=True)` for a value of every step, as it is by default in `training_step`."""
    synchronised, on_step = given(model, site.node, "sync_dist"), given(model, site.node, "on_step")
    if synchronised is None or on_step is None or not synchronised.is_constant(True):
        return False
    if not on_step.is_constant(True) and not (on_step.absent and model.function_name(site) == "training_step"):
        return False
    return model.in_lightning_module(site)
