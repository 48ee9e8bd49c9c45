"""`DataLoader(dataset)` without workers: samples are read and collated between two training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Safety, Severity
from torchperf_lint.idioms import habits
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.workers import only_first_batch
from torchperf_lint.knowledge import loading
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL401",
    name="dataloader-no-workers",
    category=Category.DATA,
    summary="a loader without workers prepares every batch in the training process",
    message="`{call}` {how}: every batch is read and collated in the training process, between two steps",
    severity=Severity.NOTE,
    fix=Safety.SHOWN,
    triggers=(("DataLoader", "Loader(", *(name.rpartition(".")[2] for name in loading.TRAINING_ARGUMENTS)),),
    cpu_only_too=True,  # another file may move the batches
)
def dataloader_no_workers(model: Model) -> Iterator[Finding]:
    """Loaders that feed an accelerator in a training program, and the Trainer's arguments."""
    yield from _loaders(model)
    if model.code.calls_ending_in("Trainer") and not model.runs_elsewhere:
        yield from _trainers(model)


def _loaders(model: Model) -> Iterator[Finding]:
    for site in model.loaders():
        position = model.loader_position(site, "num_workers")
        workers = given(model, site.node, "num_workers", position)
        if workers is None or not (workers.absent or workers.is_constant(0)) or model.in_test(site):
            continue
        if only_first_batch(model, site):
            continue
        samples = model.loader_samples(site)
        # Workers do not speed up data in memory, repeat an unsharded stream, and cannot return device tensors.
        if samples.in_memory or not samples.takes_work or samples.unsharded or samples.on_host is False:
            continue
        if samples.made_up is not None:
            continue
        route = model.loader_route(site)
        if route is None or not habits.trains(model.code, route.file):
            continue
        fields = {
            "call": f"{model.text(site.node.func)}(...)",
            "how": "has no `num_workers`" if workers.absent else "sets `num_workers=0`",
        }
        fix = _start_workers(model, site, "num_workers") if workers.absent else None
        yield Finding(site, route.because, fix, fields)


def _trainers(model: Model) -> Iterator[Finding]:
    for site in model.calls(*loading.TRAINING_ARGUMENTS):
        workers = given(model, site.node, "dataloader_num_workers")
        if workers is None or not (workers.absent or workers.is_constant(0)) or model.in_test(site):
            continue
        name = model.text(site.node.func)
        how = "has no `dataloader_num_workers`" if workers.absent else "sets `dataloader_num_workers=0`"
        because = Because(site.rows[0], "the Trainer builds its loaders from these arguments and moves their batches")
        fix = _start_workers(model, site, "dataloader_num_workers") if workers.absent else None
        yield Finding(site, (because,), fix, {"call": f"{name}(...)", "how": how})


def _start_workers(model: Model, site: Site, keyword: str) -> Fix | None:
    """A starting value: the best number of workers depends on the machine and on the samples."""
    counts = model.named("os", site)
    bound = counts.kind is Kind.LIBRARY and counts.ref == "os"
    edit = edits.add_argument(site.tree, site.node, f"{keyword}={'min(8, os.cpu_count() or 1)' if bound else 4}")
    title = "start worker processes, if the samples can be pickled: at most the CPUs of the host divided by its GPUs"
    return None if edit is None else Fix(title, Safety.SHOWN, edit)
