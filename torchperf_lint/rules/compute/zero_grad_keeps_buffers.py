"""`optimizer.zero_grad(set_to_none=False)`: every gradient is filled with zeros and then accumulated into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import habits
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.compute.gradmode import filled_gradients
from torchperf_lint.knowledge import optimizer_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL605",
    name="zero-grad-keeps-buffers",
    category=Category.COMPUTE,
    summary="gradients are filled with zeros in every step, where they could be dropped",
    message="`{call}` fills every gradient with zeros {where}, and backward adds to them instead of storing its own",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    assumes="every step gives every parameter a gradient, and nothing reads `p.grad` before that",
    triggers=(("zero_grad", ".zero_()"),),
    asks=("torch",),
)
def zero_grad_keeps_buffers(model: Model) -> Iterator[Finding]:
    """Hot calls of `zero_grad` that keep the gradients, by argument or by torch's old default, and equivalent loops."""
    if habits.replays_graphs(model.code):
        return  # a replayed graph needs the gradients at the same addresses
    for site in model.method_calls("zero_grad"):
        receiver = shape.receiver(site.node)
        keeps = given(model, site.node, "set_to_none", 0)
        if receiver is None or keeps is None or not (keeps.absent or keeps.is_constant(False)):
            continue
        old = keeps.absent and model.target.torch_is(optimizer_api.KEEPS_BY_DEFAULT)
        hot_path = model.hot_path(site) if old or not keeps.absent else None
        if hot_path is None or not _is_torchs(model, receiver) or model.in_test(site):
            continue
        because = (*hot_path.because, *(model.target_evidence("torch") if old else ()))
        yield Finding(site, because, _drop(model, site, old=bool(old)), _fields(model, site, hot_path.where))
    for site, hot_path in filled_gradients(model):
        if not model.in_test(site):
            yield Finding(site, hot_path.because, None, _fields(model, site, hot_path.where))


def _is_torchs(model: Model, receiver: object) -> bool:
    """Whether it is an optimizer or a module whose `zero_grad` is torch's own."""
    value = model.value(receiver)  # type: ignore[arg-type]
    own = value.cls is not None and model.has_method(value, "zero_grad")
    return value.kind in (Kind.OPTIMIZER, Kind.MODULE) and not own


def _drop(model: Model, site: Site, *, old: bool) -> Fix | None:
    keeps = given(model, site.node, "set_to_none", 0)
    if keeps is None or (old and not model.target.torch_is(optimizer_api.TAKES_SET_TO_NONE)):
        return None
    if keeps.node is not None:
        edit = edits.replace(site.tree, keeps.node, "True")
        changed = edits.together(edit)
    else:
        changed = edits.add_argument(site.tree, site.node, "set_to_none=True") if keeps.absent else None
    return None if changed is None else Fix("drop the gradients", Safety.UNSAFE, changed)


def _fields(model: Model, site: Site, where: str) -> dict[str, str]:
    return {"call": model.brief(site.node), "where": where}
