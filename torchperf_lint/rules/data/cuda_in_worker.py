"""`.cuda()` in `__getitem__` or in a collate function: the device is used in the loader's worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.data import in_workers
from torchperf_lint.idioms.data.workers import workers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL411",
    name="cuda-in-worker",
    category=Category.DATA,
    summary="the worker processes of a loader use the device",
    message=(
        "`{call}` has workers that use the device: a forked worker cannot, "
        "and a spawned one needs a CUDA context of its own and copies each batch by itself"
    ),
    severity=Severity.WARNING,
    triggers=("DataLoader", "num_workers"),
    cpu_only_too=True,  # another file may hold the dataset
)
def cuda_in_worker(model: Model) -> Iterator[Finding]:
    """Loaders with workers whose dataset, transforms or collate function put tensors on the accelerator."""
    for site in model.loaders():
        if workers_of(model, site) is None or model.in_test(site):
            continue
        because = in_workers.device_use(model, site)
        if because is not None:
            yield Finding(site, because, None, {"call": f"{model.text(site.node.func)}(...)"})
