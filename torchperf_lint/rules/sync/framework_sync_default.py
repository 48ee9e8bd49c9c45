"""`TrainingArguments(logging_steps=1)`: a trainer configured to read the loss on the host in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge.loading import TRAINING_ARGUMENTS
from torchperf_lint.knowledge.loggers import FEW_STEPS, IGNITE_TRAINERS
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.syntax import cst


@rule(
    code="TPL117",
    name="framework-sync-default",
    category=Category.SYNC,
    summary="a framework's trainer is set up to read the loss in every step",
    message="`{setting}` has the trainer read the loss in every step, which waits for the device",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="every handler takes a tensor as `engine.state.output`",
    triggers=(("logging_steps", "create_supervised_trainer"),),
)
def framework_sync_default(model: Model) -> Iterator[Finding]:
    """Logging after every step, and a trainer that outputs the loss as a number."""
    for site in model.calls(*TRAINING_ARGUMENTS):
        logged = given(model, site.node, "logging_steps")
        if logged is None or not logged.is_constant(1) or not _logs_steps(model, site):
            continue
        fix = None if logged.node is None else _log_seldom(model, site, logged.node)
        at = site if logged.node is None else model.site(logged.node)
        yield Finding(at, (), fix, {"setting": "logging_steps=1"})
    for site in model.calls(*IGNITE_TRAINERS):
        output = given(model, site.node, "output_transform")
        device = given(model, site.node, "device", 3)
        by_position = [argument for argument in site.node.args if argument.keyword is None]
        if output is None or not output.absent or len(by_position) > 5 or model.in_test(site):
            continue
        if device is None or device.node is None or not model.device_named(device.node).on_accelerator:
            continue
        changed = edits.add_argument(site.tree, site.node, "output_transform=lambda x, y, y_pred, loss: loss.detach()")
        fix = None if changed is None else Fix("keep the loss on the device", Safety.UNSAFE, changed)
        yield Finding(site, (), fix, {"setting": model.brief(site.node)})


def _logs_steps(model: Model, site: Site) -> bool:
    """Whether the trainer logs by steps, on an accelerator, and runs many steps."""
    strategy, steps = given(model, site.node, "logging_strategy"), given(model, site.node, "max_steps")
    on_host = [given(model, site.node, name) for name in ("use_cpu", "no_cuda")]
    if strategy is None or steps is None or model.in_test(site):
        return False
    if any(each is None or not (each.absent or each.is_constant(False)) for each in on_host):
        return False
    by_steps = strategy.value is None or strategy.value.constant == "steps"
    number = None if steps.value is None else steps.value.constant
    return by_steps and not (isinstance(number, int) and 0 < number < FEW_STEPS)


def _log_seldom(model: Model, site: Site, interval: cst.BaseExpression) -> Fix | None:
    """Log every ten steps, without the NaN filter, which also reads the loss in every step."""
    changed = edits.together(edits.replace(site.tree, interval, "10"))
    filtered = given(model, site.node, "logging_nan_inf_filter")
    if filtered is not None and filtered.absent:
        changed = edits.together(changed, edits.add_argument(site.tree, site.node, "logging_nan_inf_filter=False"))
    return None if changed is None else Fix("log every ten steps", Safety.SHOWN, changed)
