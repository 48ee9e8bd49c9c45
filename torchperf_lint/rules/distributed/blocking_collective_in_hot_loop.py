"""`dist.barrier()` or `dist.all_gather_object(...)` in every step: all processes wait for the slowest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Severity
from torchperf_lint.idioms.distributed.collectives import asks_only_for_others, stands_beside_a_clock
from torchperf_lint.knowledge import collectives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site


@rule(
    code="TPL504",
    name="blocking-collective-in-hot-loop",
    category=Category.DISTRIBUTED,
    summary="every step waits for all processes",
    message="`{call}` {waits} {where}",
    severity=Severity.ERROR,
    triggers=(("barrier", "_object", "wait_for_everyone"),),
)
def blocking_collective_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Barriers, and collectives of pickled objects, in code that runs for every batch."""
    for site in model.calls(*collectives.BARRIERS, *collectives.OF_OBJECTS, hot=True, near_device=False):
        yield from _reported(model, site, of_objects=model.value(site.node.func).ref in collectives.OF_OBJECTS)
    for name in collectives.BARRIER_METHODS:
        for site in model.method_calls(name):
            yield from _reported(model, site, of_objects=False)


def _reported(model: Model, site: Site, *, of_objects: bool) -> Iterator[Finding]:
    hot_path = model.hot_path(site)
    if (
        hot_path is None
        or model.in_test(site)
        or not asks_only_for_others(model, site)
        or stands_beside_a_clock(model, site)
    ):
        return
    waits = "pickles, and waits for the device and for all processes," if of_objects else "waits for all processes"
    yield Finding(
        site, hot_path.because, None, {"call": model.brief(site.node), "waits": waits, "where": hot_path.where}
    )
