"""A gradient scaler with bfloat16 autocasting: bfloat16 does not need its range protection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms.compute.precision import autocast_regions, live_scalers, scaled_steps
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL603",
    name="scaler-with-bf16",
    category=Category.COMPUTE,
    summary="gradients are scaled for a range that bfloat16 has anyway",
    message="`{call}` scales bfloat16 gradients, and each `{step}` waits for the device to ask whether they overflowed",
    severity=Severity.ERROR,
    loses=Loss.WAIT,
    fix=Safety.UNSAFE,
    assumes="no step has to be skipped for infinite gradients, and no checkpoint with a scale is loaded",
    costs_at_use=True,
    triggers=("GradScaler", "bfloat16", "autocast"),
)
def scaler_with_bf16(model: Model) -> Iterator[Finding]:
    """Scalers that are always enabled, in files whose every autocast region is bfloat16."""
    regions = autocast_regions(model)
    if not regions or any(region.dtype != "bfloat16" for region in regions):
        return
    steps = [] if _may_choose_float16(model) else list(scaled_steps(model))
    if not steps:
        return
    for site in live_scalers(model):
        if model.in_test(site):
            continue
        hot_path = model.hot_path(steps[0])
        shown = Because(regions[0].site.rows[0], "here it is bfloat16 that is computed in")
        because = (
            shown,
            Because(steps[0].rows[0], "the scaler is asked here"),
            *(hot_path.because if hot_path else ()),
        )
        fields = {"call": f"{model.text(site.node.func)}(...)", "step": f"{model.text(steps[0].node.func)}(...)"}
        yield Finding(site, because, _disable(site), fields)


def _disable(site: Site) -> Fix | None:
    """Disable the scaler; its calls may stay."""
    enabled = shape.argument(site.node, "enabled")
    if enabled is None:
        changed = edits.add_argument(site.tree, site.node, "enabled=False")
    else:
        changed = edits.together(edits.replace(site.tree, enabled, "False"))  # type: ignore[arg-type]
    return None if changed is None else Fix("switch the scaler off", Safety.UNSAFE, changed)


def _may_choose_float16(model: Model) -> bool:
    """Whether the file casts to float16 or has an option for it."""
    named = model.code.names("torch.float16", "torch.half") or model.code.states("fp16", "float16")
    return named or model.code.calls(".half")
