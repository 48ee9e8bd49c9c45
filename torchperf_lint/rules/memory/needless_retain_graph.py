"""`loss.backward(retain_graph=True)` as the last backward pass of a step: its buffers are retained for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.idioms.memory.retained import needlessly_retained
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL704",
    name="needless-retain-graph",
    category=Category.MEMORY,
    summary="the last backward pass of a step keeps its graph for another one",
    message="`{call}` keeps the graph and its activations {where}, and {why}",
    severity=Severity.WARNING,
    fix=Safety.SHOWN,
    triggers=("retain_graph", "backward"),
)
def needless_retain_graph(model: Model) -> Iterator[Finding]:
    """The only or last backward pass in a loop that carries no tensors between iterations."""
    for found in needlessly_retained(model):
        edit = _without(found.site)
        fix = None if edit is None else Fix("let the graph go with this pass", Safety.SHOWN, (edit,))
        why = "no other backward pass is made" if found.only else "it is the last backward pass of the step"
        fields = {"call": model.brief(found.site.node), "where": found.hot_path.where, "why": why}
        yield Finding(found.site, found.hot_path.because, fix, fields)


def _without(site: Site) -> Edit | None:
    """The call without the argument."""
    call = site.node
    assert isinstance(call, cst.Call)
    kept = [argument for argument in call.args if argument.keyword is None or argument.keyword.value != "retain_graph"]
    text = ", ".join(edits.code_of(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for argument in kept)
    return edits.replace(site.tree, call, f"{edits.text_of(site.tree, call.func)}({text})")
