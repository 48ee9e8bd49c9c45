"""`DataLoader(dataset)` without `pin_memory`: every batch is copied to the device from pageable memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, ByDefault, Finding, Fix, Loss, NoFix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.pinning import argument, pin
from torchperf_lint.idioms.data.workers import none_by_default, number_of_workers, only_first_batch
from torchperf_lint.knowledge import loading
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model

_ALONE = "it has no workers, so the training loop pins each batch itself, and then still waits for the copy"


@rule(
    code="TPL402",
    name="dataloader-unpinned",
    category=Category.DATA,
    summary="a loader that feeds the accelerator yields batches in pageable memory",
    message="`{call}` {how}: every batch is copied to the device from pageable memory, which the host has to stage",
    severity=Severity.WARNING,
    loses=Loss.WAIT,
    fix=Safety.SAFE,
    assumes="the samples are dense tensors of the host, which has the memory to pin them",
    costs_at_use=True,
    triggers=(("DataLoader", "Loader(", "dataloader_pin_memory"),),
    cpu_only_too=True,  # another file may move the batches
)
def dataloader_unpinned(model: Model) -> Iterator[Finding]:
    """Loaders whose batches go to an accelerator, and the Trainer's `dataloader_pin_memory=False`."""
    for site in model.loaders():
        pinned = argument(model, site)
        if pinned is None or not (pinned.absent or pinned.is_constant(False)) or model.in_test(site):
            continue
        if only_first_batch(model, site):
            continue
        samples = model.loader_samples(site)
        route = None if samples.on_host is False or samples.no_tensors else model.loader_route(site)
        no_workers = route is not None and none_by_default(model, site)
        if route is not None and not (route.blocks and no_workers):
            fields = {
                "call": f"{model.text(site.node.func)}(...)",
                "how": "has no `pin_memory`" if pinned.absent else "sets `pin_memory=False`",
            }
            minor = samples.made_up
            if minor is None and samples.in_memory:
                minor = Because(site.rows[0], "the samples lie in memory, so that a batch is made at once")
            if minor is None and no_workers and route.waits:
                minor = Because(site.rows[0], _ALONE)
            workers = number_of_workers(model, site) if route.waits or route.blocks else None
            minor_if = None if workers is None else ByDefault(workers, 0, _ALONE)
            yield Finding(site, route.because, pin(model, site, pinned, route, samples), fields, minor, minor_if)
    if not model.runs_elsewhere:
        yield from _trainers(model)


def _trainers(model: Model) -> Iterator[Finding]:
    for site in model.calls(*loading.TRAINING_ARGUMENTS):
        pinned = given(model, site.node, "dataloader_pin_memory")
        if pinned is None or not pinned.is_constant(False) or model.in_test(site):
            continue
        edit = None if pinned.node is None else edits.replace(site.tree, pinned.node, "True")
        fix = (
            NoFix.NO_ROOM
            if edit is None
            else Fix("pin the batches, as the Trainer does by default", Safety.UNSAFE, (edit,))
        )
        because = Because(site.rows[0], "the Trainer moves every batch to the device")
        fields = {"call": f"{model.text(site.node.func)}(...)", "how": "sets `dataloader_pin_memory=False`"}
        yield Finding(site, (because,), fix, fields)
