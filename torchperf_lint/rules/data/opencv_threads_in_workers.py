"""`cv2.resize(...)` in a loader's workers: each worker starts a thread for every CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms.data.opencv import in_workers, without_threads
from torchperf_lint.knowledge.opencv_api import THREADED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model


@rule(
    code="TPL409",
    name="opencv-threads-in-workers",
    category=Category.DATA,
    summary="each worker of a loader starts OpenCV's threads",
    message="`{call}` runs in {workers}, and each of them starts a thread for every CPU of the host",
    severity=Severity.NOTE,
    rate=Rate.ELEMENT,
    default=False,  # the host's number of CPUs is unknown
    fix=Safety.UNSAFE,
    assumes="no result depends on how many threads OpenCV uses, in this process or a worker",
    triggers=("cv2",),
    cpu_only_too=True,  # samples are made on the host
)
def opencv_threads_in_workers(model: Model) -> Iterator[Finding]:
    """The first call in a file that starts OpenCV's threads in a loader's workers."""
    if model.called_anywhere("setNumThreads") or model.code.speaks_of("opencv_num_threads"):
        return
    sites = [site for site in model.calls(*THREADED) if not model.in_test(site)]
    used = in_workers(model, sites) if sites else None
    if used is not None:
        edit = without_threads(model, used)
        title = "let OpenCV work in the thread that calls it, in the whole process"
        if used.starter is not None:
            title = "let OpenCV work in the worker's own thread"
        fix = None if edit is None else Fix(title, Safety.UNSAFE, (edit,))
        workers = "a worker" if used.workers == 1 else f"{used.workers} workers"
        yield Finding(used.site, used.because, fix, {"call": model.brief(used.site.node), "workers": workers})
