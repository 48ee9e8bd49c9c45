"""`SGD(..., foreach=False)`: an optimizer that updates parameters one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute.precision import live_scalers, scaled_steps
from torchperf_lint.knowledge import amp_api, optimizer_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_ONE_BY_ONE = "updates one parameter after the other, with kernels for each"
_ASKED = "is asked for infinite gradients on the host in every step, where its fused form would look on the device"

_FUSED = "all parameters are of floats, on a device that has the fused update, and the last digits may differ"


@rule(
    code="TPL606",
    name="single-tensor-optimizer",
    category=Category.COMPUTE,
    summary="an optimizer updates its parameters one by one",
    message="`{call}` {does}",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    assumes="updates may be rounded differently in the last digits",
    costs_at_use=True,
    asks=("torch",),
    triggers=("optim", ("foreach", "fused", "GradScaler")),
)
def single_tensor_optimizer(model: Model) -> Iterator[Finding]:
    """Optimizers with list and fused kernels disabled, and unfused ones that a scaler steps."""
    for site in model.calls(*optimizer_api.FOREACH_CLASSES):
        if model.in_test(site) or not _may_change(model, site):
            continue
        name = "foreach" if _is(model, site, "foreach", False) else "fused"
        other = "fused" if name == "foreach" else "foreach"
        told = given(model, site.node, name)
        if told is None or not told.is_constant(False) or not (_is(model, site, other, None, False)):
            continue
        edit = (
            None if told.node is None else edits.replace(site.tree, told.node, "True" if name == "foreach" else "None")
        )
        fix = None if edit is None else Fix("let it update all parameters together", Safety.UNSAFE, (edit,))
        yield Finding(site, (), fix, {"call": f"{model.text(site.node.func)}({name}=False)", "does": _ONE_BY_ONE})
    yield from _asked_by_scaler(model)


def _is(model: Model, site: Site, name: str, *constants: object) -> bool:
    """Whether the argument is missing (where None is among the constants) or literally one of the constants."""
    passed = given(model, site.node, name)
    if passed is None or passed.value is None:
        return passed is not None and None in constants
    if passed.value.kind is Kind.NONE:
        return None in constants
    return any(passed.is_constant(constant) for constant in constants if constant is not None)


def _may_change(model: Model, site: Site) -> bool:
    """Whether the other forms are possible: no differentiated update, no graph, no tensor as learning rate."""
    rate = given(model, site.node, "lr", 1)
    is_tensor = rate is not None and rate.value is not None and rate.value.holds_tensors
    return (
        not is_tensor
        and _is(model, site, "differentiable", None, False)
        and _is(model, site, "capturable", None, False)
    )


def _asked_by_scaler(model: Model) -> Iterator[Finding]:
    live = {site.start for site in live_scalers(model)}
    if not live or any(site.start not in live for site in model.calls(*amp_api.SCALERS)):
        return
    found: set[int] = set()
    for step in scaled_steps(model):
        assert isinstance(step.node, cst.Call)
        optimizer = model.value(step.node.args[0].value) if step.node.args else None
        site = None if optimizer is None else model.creation(optimizer)
        if site is None or site.start in found or not isinstance(site.node, cst.Call):
            continue
        ref = model.value(site.node.func).ref or ""
        plain = _may_change(model, site) and _is(model, site, "fused", None) and _is(model, site, "foreach", None)
        if ref not in optimizer_api.FUSED_SINCE or not plain or model.in_test(site):
            continue
        found.add(site.start)
        hot_path = model.hot_path(step)
        because = (Because(step.rows[0], "the scaler steps it here"), *(hot_path.because if hot_path else ()))
        known = model.target.torch_is(optimizer_api.FUSED_SINCE[ref])
        added = edits.add_argument(site.tree, site.node, "fused=True")
        fix = None
        if known is not False and added is not None:
            fix = Fix("use the fused update", Safety.UNSAFE if known else Safety.SHOWN, added, _FUSED)
        shown = (*because, *model.target_evidence("torch"))
        yield Finding(site, shown, fix, {"call": f"{model.text(site.node.func)}(...)", "does": _ASKED})
