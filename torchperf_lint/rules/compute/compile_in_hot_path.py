"""`torch.compile(model)` in a loop or in `forward`: the compiled callable is set up again in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms import conditions, placing, surroundings
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site

_COMPILERS = {
    "torch.compile": "wraps what it is given anew, and looks its compiled code up again,",
    "torch.jit.script": "compiles what it is given",
    "torch.jit.trace": "runs and traces what it is given",
}


@rule(
    code="TPL611",
    name="compile-in-hot-path",
    category=Category.COMPUTE,
    summary="a compiled function is made again in every step",
    message="`{call}` {does} {where}",
    severity=Severity.WARNING,
    loses=Loss.HOST,
    fix=Safety.SHOWN,
    triggers=(("compile", "jit"),),
)
def compile_in_hot_path(model: Model) -> Iterator[Finding]:
    """Calls of compilers in every step whose result is not kept for the next step."""
    for site in model.calls(*_COMPILERS, hot=True, near_device=False):
        hot_path = model.hot_path(site)
        if (
            hot_path is None
            or model.in_test(site)
            or filled_once(model, site)
            or not conditions.in_any_case(model, site)
        ):
            continue
        does = _COMPILERS[model.value(site.node.func).ref or ""]
        fields = {"call": model.brief(site.node), "does": does, "where": hot_path.where}
        yield Finding(site, hot_path.because, _lifted(model, site, hot_path), fields)


def _lifted(model: Model, site: Site, hot_path: HotPath) -> Fix | None:
    """Compile once, before the loop, if nothing in the call depends on the loop."""
    assigned = model.parent(site.node)
    if hot_path.loop is None or not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return None
    target = model.text(assigned.targets[0].target)
    used = {name.value for name in shape.names_in(site.node)}
    if used & (surroundings.names_of_loop(model, hot_path) - {target}) or target in used:
        return None
    edits = placing.lifted(model, site, hot_path)
    return None if edits is None else Fix("make it once, before the loop", Safety.SHOWN, edits)
