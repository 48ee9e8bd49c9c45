"""`DataLoader(dataset, num_workers=8)` iterated in every epoch: its workers are restarted each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Because, Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data import epochs
from torchperf_lint.idioms.data.workers import workers_of
from torchperf_lint.knowledge import loading
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.data.workers import Workers
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL403",
    name="dataloader-workers-respawned",
    category=Category.DATA,
    summary="a loader starts its worker processes again in every epoch",
    message="`{call}` starts {workers} anew for every epoch, and the first batches have to wait for that",
    severity=Severity.WARNING,
    rate=Rate.SELDOM,
    fix=Safety.UNSAFE,
    assumes="random numbers may be others, and nothing changes the dataset between epochs",
    torch=">=1.7",
    costs_at_use=True,
    triggers=(("DataLoader", "dataloader_num_workers"), "num_workers"),
    cpu_only_too=True,  # the start costs the same whatever the model runs on
)
def dataloader_workers_respawned(model: Model) -> Iterator[Finding]:
    """Loaders with workers that a loop over epochs, or Lightning, iterates again, and the Trainer's arguments."""
    for site in model.loaders():
        kept = given(model, site.node, "persistent_workers")
        if kept is None or not (kept.absent or kept.is_constant(False)) or model.in_test(site):
            continue
        workers = workers_of(model, site)
        rewalks = [] if workers is None else list(epochs.rewalks(model, site))
        if workers is None or not rewalks or any(each.changes_dataset for each in rewalks):
            continue
        fix = _keep(site, "persistent_workers", workers, Safety.UNSAFE) if kept.absent else None
        yield Finding(site, rewalks[0].because, fix, _fields(model, site, workers))
    yield from _trainers(model)


def _trainers(model: Model) -> Iterator[Finding]:
    for site in model.calls(*loading.TRAINING_ARGUMENTS):
        kept = given(model, site.node, "dataloader_persistent_workers")
        epochs = given(model, site.node, "num_train_epochs")
        steps = given(model, site.node, "max_steps")
        if kept is None or epochs is None or steps is None or not kept.absent or not steps.absent:
            continue
        several = epochs.absent or (epochs.value is not None and _is_above_one(epochs.value.constant))
        workers = workers_of(model, site, "dataloader_num_workers")
        if workers is not None and several and not model.in_test(site):
            because = Because(site.rows[0], "the Trainer walks over its loader in every epoch")
            fix = _keep(site, "dataloader_persistent_workers", workers, Safety.SHOWN)
            yield Finding(site, (because,), fix, _fields(model, site, workers))


def _is_above_one(number: object) -> bool:
    return isinstance(number, (int, float)) and number > 1


def _fields(model: Model, site: Site, workers: Workers) -> dict[str, str]:
    count = f"its {workers.number} workers" if workers.number > 1 else "its worker"
    return {"call": f"{model.text(site.node.func)}(...)", "workers": count if workers.text is None else "its workers"}


def _keep(site: Site, keyword: str, workers: Workers, grade: Safety) -> Fix | None:
    value = "True" if workers.text is None else f"{workers.text} > 0"
    added = edits.add_argument(site.tree, site.node, f"{keyword}={value}")
    return None if added is None else Fix("keep the workers from epoch to epoch", grade, added)
