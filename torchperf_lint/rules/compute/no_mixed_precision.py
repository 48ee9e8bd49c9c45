"""Training entirely in float32 on devices whose matrix units are faster with 16 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms import habits
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute.settings import training_call
from torchperf_lint.knowledge import backend_flags, debug_modes, loading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL601",
    name="no-mixed-precision",
    category=Category.COMPUTE,
    summary="a model is trained in float32 throughout",
    message="`{call}` trains in float32, and nothing in this file asks for mixed precision",
    severity=Severity.NOTE,
    default=False,
    triggers=(("backward", "Trainer", "TrainingArguments"),),
)
def no_mixed_precision(model: Model) -> Iterator[Finding]:
    """Scripts with their own training loop, and frameworks' trainers, that keep the default precision."""
    if habits.chooses_precision(model.code) or model.code.speaks_of(*backend_flags.PRECISION_ELSEWHERE):
        return
    for site in model.calls(*debug_modes.TRAINERS):
        if _leaves_out(model, site, "precision", "plugins", "strategy") and not _is_for_cpu(model, site):
            yield Finding(site, (), None, {"call": f"{model.text(site.node.func)}(...)"})
    for site in model.calls(*loading.TRAINING_ARGUMENTS):
        if _leaves_out(model, site, "bf16", "fp16", "use_cpu", "no_cuda", "deepspeed"):
            yield Finding(site, (), None, {"call": f"{model.text(site.node.func)}(...)"})
    training = training_call(model)
    if training is not None:
        site, hot_path = training
        yield Finding(site, hot_path.because, None, {"call": model.brief(site.node)})


def _leaves_out(model: Model, site: Site, *names: str) -> bool:
    """Whether none of the arguments is passed and the call is not a test."""
    passed = [given(model, site.node, name) for name in names]
    return not model.in_test(site) and all(each is not None and each.absent for each in passed)


def _is_for_cpu(model: Model, site: Site) -> bool:
    where = given(model, site.node, "accelerator")
    quick = given(model, site.node, "fast_dev_run")
    on_host = where is None or (where.value is not None and where.value.constant == "cpu")
    return on_host or quick is None or not quick.absent
