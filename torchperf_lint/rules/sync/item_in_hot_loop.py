"""`loss_value = loss.item()` in every step: a read of a device scalar that no more specific rule reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.sync.ahead import read_ahead_or
from torchperf_lint.idioms.sync.bound import bound_name, bounds_where_given, read_where_needed
from torchperf_lint.idioms.sync.coalesced import coalesced_fixes
from torchperf_lint.idioms.sync.counters import is_host_counter
from torchperf_lint.idioms.sync.destinations import is_action, is_asked_by_search
from torchperf_lint.idioms.sync.displayed_items import items_of_display
from torchperf_lint.idioms.sync.reads import FINITE_CHECKS, Sink, hot_reads
from torchperf_lint.idioms.sync.side_by_side import read_side_by_side
from torchperf_lint.idioms.sync.truths import read_truths
from torchperf_lint.knowledge.loggers import READER_ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model


@rule(
    code="TPL101",
    name="item-in-hot-loop",
    category=Category.SYNC,
    summary="a device scalar is read on the host in every step",
    message="`{read}` waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS)),),
)
def item_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Reads that end in a name, a dict or a return value, unless the program's next step depends on them."""
    told = {truth.site.start for truth in read_truths(model)}
    for read in hot_reads(model):
        if read.site.start in told:
            continue  # TPL106 reports it
        if read.role not in (Sink.OTHER, Sink.CONDITION) or is_action(model, read.site, read.tensor, read.hot_path):
            continue
        if is_asked_by_search(model, read.site):
            continue
        fix, name = read_ahead_or(model, read, NoFix.NEEDED_IN_THE_STEP), bound_name(read)
        if isinstance(fix, NoFix):
            if read.role is Sink.CONDITION or bounds_where_given(model, read):
                continue
            if name and _steers(model, read, name):
                continue
            fix = _own_fix(model, read)
        counted = is_host_counter(model, read)
        because = read.because if counted is None else (*read.because, counted)
        fields = {"read": model.brief(read.site.node), "where": read.hot_path.where}
        yield Finding(read.site, (*because, *read.hot_path.because), fix, fields)


def _own_fix(model: Model, read: HostRead) -> Fix | NoFix:
    """The fix of a read that no loop repeats within the step, or whose loop cannot be read ahead."""
    fix, start = read_where_needed(model, read), read.site.start
    if isinstance(fix, NoFix):
        fix = coalesced_fixes(model).get(start) or read_side_by_side(model).get(start) or fix
    if isinstance(fix, NoFix) or fix.safety is not Safety.SAFE:
        shown = items_of_display(model, read)
        is_better = isinstance(shown, Fix) and (isinstance(fix, NoFix) or shown.safety is Safety.SAFE)
        fix = shown if is_better else fix
    return fix


def _steers(model: Model, read: HostRead, name: str) -> bool:
    """Whether a use in the step decides a branch, a size or an action: then the host needs the value anyway.

    Uses of derived values count as well: `last = index + 1`, then `x[:last]`.
    In a function that is called per step, code before the read does not use it: `if x is None: x = y.item()`. A
    counter that gets all its numbers from the host is read for nothing, whatever it decides.
    """
    names = surroundings.reckoned_from(model, name, read.site)
    loads = [use for each in names for use in model.uses(each, read.site, read.hot_path).of("load")]
    in_step = [use for use in loads if use.inside or (read.hot_path.loop is None and use.start > read.site.end)]
    # A check in a test may leave the step; what keeps its result may do anything by it.
    deciding = (use for use in in_step if use.decides is not _checks(use.call) or "env" in (use.call or "").lower())
    return any(not use.sampled for use in deciding) and is_host_counter(model, read) is None


def _checks(call: str | None) -> bool:
    """Whether the function that takes a number asks no more than whether it is finite."""
    return (call or "").rpartition(".")[2] in FINITE_CHECKS
