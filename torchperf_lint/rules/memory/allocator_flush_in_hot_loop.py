"""`torch.cuda.empty_cache()` in every step: memory that the next step needs goes back to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Loss, Safety, Severity
from torchperf_lint.idioms import conditions, placing, writes
from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge import loading, memory_api
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_GIVES_BACK = "gives the allocator's free memory back to the driver, which waits for the device,"
_KEEP = "let the allocator keep its memory"
_EFFECTS = {
    **dict.fromkeys(
        memory_api.COLLECTIONS,
        ("walks over all objects of the process", "let Python collect its garbage when it is due"),
    ),
    **dict.fromkeys(
        memory_api.SHARED_FLUSHES,
        (
            "looks through all memory that is shared with other processes",
            "leave shared memory to the allocator",
        ),
    ),
}
"""By function: its effect, if not to flush the cache, and the effect of removing it."""


@rule(
    code="TPL703",
    name="allocator-flush-in-hot-loop",
    category=Category.MEMORY,
    summary="the memory cache is emptied, or garbage collected, in every step",
    message="`{call}` {does} {where}",
    severity=Severity.WARNING,
    loses=Loss.WAIT,
    fix=Safety.UNSAFE,
    assumes="memory does not run out without it",
    triggers=(("empty_cache", "gc.collect", "import collect", "ipc_collect", "clear_device_cache", "free_memory"),),
)
def allocator_flush_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Flushes in every step that no setting of the program controls, and the Trainer's setting for them."""
    sites = [site for site in _flushes(model) if isinstance(model.parent(site.node), cst.Expr)]
    found = [
        site for site in sites if conditions.in_any_case(model, site) and not writes.takes_models_away(model, site)
    ]
    for site in found:
        hot_path = model.hot_path(site)
        if hot_path is None or model.in_test(site):
            continue
        edit = placing.removed(model, site, found)
        does, instead = _EFFECTS.get(model.value(site.node.func).ref or "", (_GIVES_BACK, _KEEP))
        fix = None if edit is None else Fix(instead, Safety.UNSAFE, (edit,))
        fields = {"call": model.brief(site.node), "does": does, "where": hot_path.where}
        yield Finding(site, hot_path.because, fix, fields)
    yield from _trainers(model)


def _flushes(model: Model) -> Iterator[Site]:
    refs = [*memory_api.CACHE_FLUSHES, *memory_api.SHARED_FLUSHES]
    if not model.code.names(*memory_api.KEPT_BY_HAND):
        refs += memory_api.COLLECTIONS
    yield from model.calls(*refs, hot=True, near_device=False)


def _trainers(model: Model) -> Iterator[Finding]:
    for site in model.calls(*loading.TRAINING_ARGUMENTS):
        often = given(model, site.node, "torch_empty_cache_steps")
        if often is None or not often.is_constant(1) or model.in_test(site):
            continue
        edit = None if often.node is None else edits.replace(site.tree, often.node, "None")
        fix = None if edit is None else Fix(_KEEP, Safety.UNSAFE, (edit,))
        because = Because(site.rows[0], "the Trainer empties the cache as often as this says")
        call = f"{model.text(site.node.func)}(torch_empty_cache_steps=1)"
        yield Finding(site, (because,), fix, {"call": call, "does": _GIVES_BACK, "where": "in every training step"})
