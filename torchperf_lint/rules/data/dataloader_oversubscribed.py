"""`num_workers=os.cpu_count()` in each of several processes: more workers than the host has CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.workers import takes_every_cpu, workers_of
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_SEVERAL_PROCESSES = (
    "DistributedDataParallel",
    "DistributedSampler",
    "init_process_group",
    "LOCAL_RANK",
    "fully_shard",
    "FullyShardedDataParallel",
)
_MANY = 32
"""Few hosts have this many CPUs for each training process."""

_MANY_AHEAD = 16
"""Batches that each worker prefetches; 2 is the default."""


@rule(
    code="TPL404",
    name="dataloader-oversubscribed",
    category=Category.DATA,
    summary="a loader has more workers, or prepares more batches ahead, than is useful on most hosts",
    message="`{call}` {how}",
    severity=Severity.NOTE,
    default=False,  # the host's number of CPUs is unknown
    fix=Safety.SHOWN,
    triggers=("DataLoader", ("num_workers", "prefetch_factor", "cpu_count")),
    cpu_only_too=True,  # the cost is on the host, whatever the model runs on
)
def dataloader_oversubscribed(model: Model) -> Iterator[Finding]:
    """Loaders with a worker per CPU in each of several processes, with very many workers or prefetched batches."""
    for site in model.loaders():
        if model.in_test(site):
            continue
        call = f"{model.text(site.node.func)}(...)"
        workers = workers_of(model, site)
        ahead = given(model, site.node, "prefetch_factor")
        batches = None if ahead is None or ahead.value is None else ahead.value.constant
        if model.code.speaks_of(*_SEVERAL_PROCESSES) and takes_every_cpu(model, site):
            how = "starts a worker for every CPU of the host, and so does each process that trains on it"
            yield Finding(site, (), _share(model, site), {"call": call, "how": how})
        elif workers is not None and workers.text is None and workers.number >= _MANY:
            how = f"starts {workers.number} workers in each process that trains on the host"
            yield Finding(site, (), None, {"call": call, "how": how})
        elif type(batches) is int and batches >= _MANY_AHEAD:
            how = f"lets each worker prepare {batches} batches ahead, which all lie in the host's memory"
            yield Finding(site, (), None, {"call": call, "how": how})


def _share(model: Model, site: Site) -> Fix | None:
    """Divide the CPUs that this process may use among the processes on the host."""
    system = model.named("os", site)
    passed = given(model, site.node, "num_workers", model.loader_position(site, "num_workers"))
    if (
        system.kind is not Kind.LIBRARY
        or passed is None
        or not isinstance(passed.node, (cst.Call, cst.BooleanOperation))
    ):
        return None
    share = 'len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))'
    edit = edits.replace(site.tree, passed.node, share)
    return None if edit is None else Fix("share the CPUs among the processes of the host", Safety.SHOWN, (edit,))
