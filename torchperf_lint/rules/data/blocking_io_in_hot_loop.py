"""`torch.save(...)` in every step: the training process writes a file, and the device waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import conditions, placing, surroundings
from torchperf_lint.knowledge.writing import COPIES, WRITERS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_FUNCTIONS = (*sorted(WRITERS), COPIES)


@rule(
    code="TPL412",
    name="blocking-io-in-hot-loop",
    category=Category.DATA,
    summary="a file is written, or a model copied, in every training step",
    message="`{call}` {does} in every training step, and nothing is launched meanwhile",
    severity=Severity.WARNING,
    fix=Safety.SHOWN,
    triggers=(tuple(f"{ref.rpartition('.')[2]}" for ref in _FUNCTIONS),),
)
def blocking_io_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Calls that write files, and copies of models, that run unconditionally in each training step."""
    for site in model.calls(*_FUNCTIONS):
        copies = model.value(site.node.func).ref == COPIES
        if copies and not _copies_model(model, site):
            continue
        because = (
            None
            if model.in_test(site) or _writes_to_memory(model, site)
            else conditions.in_every_training_step(model, site)
        )
        if because is not None:
            fields = {
                "call": f"{model.text(site.node.func)}(...)",
                "does": "copies all parameters" if copies else "writes a file",
            }
            yield Finding(site, because, _now_and_then(model, site), fields)


def _copies_model(model: Model, site: Site) -> bool:
    """Whether a module or its `state_dict()` is copied."""
    first = site.node.args[0].value if site.node.args else None
    if isinstance(first, cst.Call):
        return shape.method_name(first) == "state_dict"
    return first is not None and model.value(first).kind is Kind.MODULE


def _writes_to_memory(model: Model, site: Site) -> bool:
    """`torch.save(x, io.BytesIO())`: no file."""
    targets = [model.value(item.value) for item in site.node.args]
    return any((value.ref or "").startswith("io.") for value in targets)


def _now_and_then(model: Model, site: Site) -> Fix | None:
    """Guard it by a test of the loop's own counter."""
    hot_path = model.hot_path(site)
    lines = placing.own_rows(model, site)
    alone = isinstance(model.parent(site.node), cst.Expr)
    counter = (
        None
        if hot_path is None or not surroundings.always_in_loop(model, site, hot_path)
        else surroundings.step_counter(model, site)
    )
    if counter is None or lines is None or not alone:
        return None
    indented = edits.put_under(site.tree, lines, f"if {counter} % 1000 == 0:")
    return None if indented is None else Fix("do it every 1000 steps", Safety.SHOWN, indented)
