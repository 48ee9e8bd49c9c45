"""`total += loss` in a training loop: the autograd graph of every step is retained as long as the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.memory.graphs import kept_graphs
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL702",
    name="graph-retention",
    category=Category.MEMORY,
    summary="a tensor is kept from step to step together with the autograd graph that made it",
    message="`{kept}` keeps the autograd graph of every step{sink}",
    severity=Severity.WARNING,
    fix=Safety.SAFE,
    assumes="nothing prints the value, or asks for its `requires_grad` or its graph",
    triggers=(("+=", ".append(", " + "), ("backward", "training_step", "compute_loss")),
)
def graph_retention(model: Model) -> Iterator[Finding]:
    """Losses that every step runs backward and adds, undetached, to something that outlives the step."""
    for kept in kept_graphs(model):
        assert isinstance(kept.site.node, cst.BaseExpression)
        value = model.value(kept.site.node)
        if value.kind is Kind.INSTANCE:
            continue  # an object of the project with its own `backward`
        edit = edits.replace(
            kept.site.tree, kept.site.node, f"{edits.postfix(kept.site.tree, kept.site.node)}.detach()"
        )
        safe = kept.ends_as_number and (value.is_tensor or model.on_device(kept.site.node) is not None)
        grade = Safety.SAFE if safe else Safety.UNSAFE
        fix = None if edit is None else Fix("keep the value without its graph", grade, (edit,))
        short = len(kept.kept) <= _LONGEST
        fields = {
            "kept": kept.kept if short else model.brief(kept.site.node),
            "sink": "" if short else f" in `{kept.sink}`",
        }
        yield Finding(kept.site, kept.because, fix, fields)


_LONGEST = 60
