"""Training loops that launch each operation of the model separately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms import habits
from torchperf_lint.idioms.compute.settings import training_call
from torchperf_lint.knowledge import backend_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL610",
    name="no-graph-compile",
    category=Category.COMPUTE,
    summary="a model is trained without being compiled",
    message="`{call}` trains a model operation by operation, and nothing in this file compiles it",
    severity=Severity.NOTE,
    default=False,
    torch=backend_flags.COMPILE_GATE,
    asks=("torch",),
    triggers=("backward",),
)
def no_graph_compile(model: Model) -> Iterator[Finding]:
    """Scripts with their own training loop that name neither a compiler nor a CUDA graph."""
    compiles = model.code.speaks_of(*backend_flags.COMPILE_STEMS) or model.code.names("torch.jit")
    training = None if compiles or habits.replays_graphs(model.code) else training_call(model)
    if training is not None:
        site, hot_path = training
        because = (*hot_path.because, *model.target_evidence("torch"))
        yield Finding(site, because, None, {"call": model.brief(site.node)})
