"""`find_unused_parameters=True`: DDP traverses the whole graph before each backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Loss, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge import collectives
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model

_TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.trainer.Trainer")
_STRATEGY = "find_unused_parameters_true"


@rule(
    code="TPL502",
    name="find-unused-parameters",
    category=Category.DISTRIBUTED,
    summary="every step of DDP begins with a search for parameters that get no gradient",
    message="`{setting}` makes DDP walk over the autograd graph in every step, which few models need",
    severity=Severity.NOTE,
    loses=Loss.HOST,
    default=False,
    triggers=("find_unused_parameters",),
)
def find_unused_parameters(model: Model) -> Iterator[Finding]:
    """Wrappers, library settings and Lightning strategies that enable the search by a literal."""
    for ref, name in collectives.SEARCHES_UNUSED.items():
        for site in model.calls(ref):
            asked = given(model, site.node, name)
            fixed = given(model, site.node, "static_graph")
            is_static = fixed is None or not (fixed.absent or fixed.is_constant(False))
            if asked is not None and asked.is_constant(True) and not is_static and not model.in_test(site):
                yield Finding(site, (), None, {"setting": f"{name}=True"})
    for site in model.calls(*_TRAINERS):
        chosen = given(model, site.node, "strategy")
        node = None if chosen is None else chosen.node
        if isinstance(node, cst.SimpleString) and str(node.evaluated_value).endswith(_STRATEGY):
            yield Finding(site, (), None, {"setting": f"strategy={node.value}"})
