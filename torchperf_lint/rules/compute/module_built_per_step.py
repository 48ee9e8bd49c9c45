"""`nn.Linear(n, m).to(x.device)(x)` in `forward`: a layer is made, initialised and copied again in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Loss, NoFix, Safety, Severity
from torchperf_lint.idioms import conditions, placing, surroundings
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.compute.building import (
    FILTER,
    METRIC,
    filters_for_samples,
    hot_buildings,
    is_trained,
    serves_one_pass,
)
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site


@rule(
    code="TPL612",
    name="module-built-per-step",
    category=Category.COMPUTE,
    summary="a module with weights, or a metric, is made anew in every step",
    message="`{call}` {does} {where}",
    severity=Severity.WARNING,
    loses=Loss.HOST,
    fix=Safety.SHOWN,
    triggers=(
        (
            "nn",
            "torchmetrics",
            "torchvision",
            "torchaudio",
            "lpips",
            "timm",
            "hub",
            "clip",
            "transformers",
            ".to(",
            ".cuda(",
        ),
    ),
)
def module_built_per_step(model: Model) -> Iterator[Finding]:
    """Calls in every step that build a module with weights, or a metric, which is not kept for the next step."""
    for site, does in hot_buildings(model):
        hot_path = model.hot_path(site)
        if hot_path is None or _is_kept(model, site) or not conditions.in_any_case(model, site):
            continue
        if hot_path.loop is not None and not serves_one_pass(model, site, hot_path.loop):
            continue
        if is_trained(model, site):
            continue
        fields = {"call": model.brief(site.node), "does": does, "where": hot_path.where}
        fix = NoFix.USED_OTHERWISE if does == METRIC else _lifted(model, site, hot_path)
        yield Finding(site, hot_path.because, fix, fields)
    for site, because in filters_for_samples(model):
        if not _is_kept(model, site):
            fields = {"call": model.brief(site.node), "does": FILTER, "where": "for each sample"}
            yield Finding(site, because, NoFix.LOOP_ELSEWHERE, fields)


def _is_kept(model: Model, site: Site) -> bool:
    """Whether the object serves for later steps, too, or the site is in a test."""
    return model.in_test(site) or filled_once(model, site)


def _lifted(model: Model, site: Site, hot_path: HotPath) -> Fix | NoFix:
    """Make it once, before the loop, if nothing in the statement depends on the loop."""
    if hot_path.loop is None:
        return NoFix.LOOP_ELSEWHERE
    whole = _moved(model, site.node)
    assigned = model.parent(whole)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return NoFix.FORM
    target = model.text(assigned.targets[0].target)
    used = {name.value for name in shape.names_in(whole)}
    if used & surroundings.names_of_loop(model, hot_path) or target in used:
        return NoFix.VARIES
    edits = placing.lifted(model, site, hot_path)
    return NoFix.NO_ROOM if edits is None else Fix("make it once, before the loop", Safety.SHOWN, edits)


def _moved(model: Model, node: cst.CSTNode) -> cst.CSTNode:
    """`nn.Linear(2, 2).to(device)` around `nn.Linear(2, 2)`."""
    attribute = model.parent(node)
    call = model.parent(attribute) if isinstance(attribute, cst.Attribute) and attribute.value is node else None
    return _moved(model, call) if isinstance(call, cst.Call) and call.func is attribute else node
