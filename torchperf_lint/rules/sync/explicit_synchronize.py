"""`torch.cuda.synchronize()` in every step of a training loop that measures nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import habits, placing, surroundings
from torchperf_lint.knowledge.timing import TIMING_NAMES
from torchperf_lint.model.domain.frequency import names_training
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site

_DEVICE_WIDE = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_CURRENT = ("torch.cuda.current_stream", "torch.cuda.default_stream", "torch.accelerator.current_stream")
_COPIES = frozenset({"copy_", "non_blocking"})


@rule(
    code="TPL113",
    name="explicit-synchronize",
    category=Category.SYNC,
    summary="a training loop waits for the whole device in every step, and measures nothing",
    message="`{call}` waits for all work on the device {where}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    assumes="no clock elsewhere counts on this wait, and nothing runs beside torch's current stream",
    triggers=("synchronize",),
)
def explicit_synchronize(model: Model) -> Iterator[Finding]:
    """Waits for the device in training loops and hooks, unless the code measures time or orders other streams."""
    if habits.orders_streams(model.code):
        return
    for site in _waits(model):
        hot_path = model.hot_path(site)
        # A module's `forward` and an optimizer's `step` may wait for other devices' work.
        trains = hot_path is not None and (hot_path.trains or names_training(model.function_name(site)))
        if hot_path is None or not trains or _measures(model, site, hot_path) or model.in_test(site):
            continue
        names = surroundings.names_used(model, site)
        if names >= _COPIES or ("cpu" in names and "non_blocking" in names):
            continue  # An asynchronous copy to the host may be read here.
        edit = placing.deleted(model, site)
        fix = None if edit is None else Fix("wait for nothing", Safety.UNSAFE, (edit,))
        yield Finding(site, hot_path.because, fix, {"call": model.brief(site.node), "where": hot_path.where})


def _waits(model: Model) -> Iterator[Site]:
    """Calls that wait for the device, or for the default stream."""
    yield from model.calls(*_DEVICE_WIDE)
    for site in model.method_calls("synchronize"):
        stream = shape.receiver(site.node)
        if isinstance(stream, cst.Call) and model.value(stream.func).ref in _CURRENT:
            yield site


def _measures(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether the function around the wait measures time; for a function that a loop calls, whether its file may."""
    if any(TIMING_NAMES.search(name.lower()) for name in surroundings.names_used(model, site)):
        return True
    if hot_path.loop is not None or model.framework(site) is not None:
        return False
    return habits.measures_time(model.code) or any(step.path not in (None, model.path) for step in hot_path.because)
