"""`preds.extend(out.cpu().numpy())` in every step: whole tensors are copied to the host batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity, Unproven
from torchperf_lint.idioms import conditions
from torchperf_lint.idioms.caches import fills_table
from torchperf_lint.idioms.metrics.host_metrics import feeds_host_metric
from torchperf_lint.idioms.sync.brought_back import was_on_host
from torchperf_lint.idioms.sync.coalesced import is_one_read
from torchperf_lint.idioms.sync.collected import collected_on_device
from torchperf_lint.idioms.sync.destinations import is_action, is_asked_by_search, is_needed_by_callers
from torchperf_lint.idioms.sync.given import is_given_to_forward
from torchperf_lint.idioms.sync.helpers import helper_reads, stands_in_reader
from torchperf_lint.idioms.sync.hosttables import hot_fillings
from torchperf_lint.idioms.sync.hostwork import worked_on_at_once
from torchperf_lint.idioms.sync.numpywork import is_fetch
from torchperf_lint.idioms.sync.reads import hot_reads
from torchperf_lint.idioms.sync.rows import copied_at_once, is_walked, rows_copied, serves_rows
from torchperf_lint.idioms.transfer.construction import built_on_host
from torchperf_lint.idioms.transfer.roundtrips import goes_back
from torchperf_lint.knowledge.host_work import NEEDS_HOST, WRITES_OUT
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.rows import Rows
    from torchperf_lint.model import HotPath, Model, Site

_OTHER_MATTERS = (goes_back, is_fetch, feeds_host_metric, is_one_read, serves_rows)
"""Whether the copy is part of a round trip, feeds a score, or is itself one read of several numbers or rows."""


@rule(
    code="TPL107",
    name="host-copy-in-hot-loop",
    category=Category.SYNC,
    summary="a tensor is copied from the device to the host in every step",
    message="`{copy}` copies from the device and waits for it {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the device has room for all that the loop collects",
    triggers=(
        # A tensor on the host that is filled part by part is made by one of the last four.
        (
            *(".cpu", ".numpy", ".tolist", '"cpu"', "'cpu'", "cpu(", "numpy(", "np(", "host("),
            *("zeros(", "ones(", "empty(", "full("),
        ),
    ),
)
def host_copy_in_hot_loop(model: Model) -> Iterator[Finding]:
    """The first copy of each chain `x.detach().cpu().numpy()`, unless the value becomes a single number.

    What is written into a tensor on the host is copied as well.
    """
    for site, copied, says in _copies(model):
        hot_path = model.hot_path(site)
        because = model.on_device(copied)
        if hot_path is None or because is None or _is_deliberate(model, site, hot_path) or fills_table(model, site):
            continue
        if not _is_copied(model, copied) or _is_part_of_read(model, site):
            continue
        # Whatever needs it on the host: all rows together cost one wait, and what a batch had there costs none.
        rows = None if says else rows_copied(model, site, copied)
        is_avoidable = rows is not None or (was_on_host(model, site, copied) and not is_walked(model, site))
        if not is_avoidable and _must_be_on_host(model, site, hot_path):
            continue
        if is_action(model, site, copied, hot_path) or is_given_to_forward(model, copied):
            continue
        if not is_avoidable and is_asked_by_search(model, site):
            continue
        if any(owns(model, site) for owns in _OTHER_MATTERS):
            continue
        # One number is no work for the host: `total += loss.cpu().numpy()` reads it as `loss.item()` would.
        is_number = model.value(copied).scalar is True
        if not is_avoidable and not is_number and worked_on_at_once(model, site, hot_path):
            continue
        fix = NoFix.BY_HELPER if says else _fix(model, site, rows)
        fields = {"copy": model.brief(site.node), "where": hot_path.where}
        yield Finding(site, (*because, *says, *hot_path.because), fix, fields)
    for filled in hot_fillings(model):
        hot_path = model.hot_path(filled.site)
        if hot_path is not None and not _is_deliberate(model, filled.site, hot_path):
            fields = {"copy": filled.write, "where": hot_path.where}
            yield Finding(filled.site, (*filled.because, *hot_path.because), NoFix.PUT_IN_A_CONTAINER, fields)


def _copies(model: Model) -> Iterator[tuple[Site, cst.BaseExpression, tuple[Because, ...]]]:
    """Each copy to the host, its tensor, and the evidence if a helper makes the copy."""
    for site in model.method_calls("cpu", "to", "numpy", "tolist", hot=True):
        receiver = shape.receiver(site.node)
        if receiver is not None and _brings_to_host(site.node) and not stands_in_reader(model, site):
            yield site, receiver, ()
    for each in helper_reads(model):
        if each.copies:
            yield each.site, each.argument, (each.because,)


def _brings_to_host(call: cst.Call) -> bool:
    name = shape.method_name(call)
    if name == "to":
        place, later = shape.argument(call, "device", 0), shape.argument(call, "non_blocking")
        waits = not (isinstance(later, cst.BaseExpression) and shape.is_literal(later, "True"))
        return waits and isinstance(place, cst.SimpleString) and place.evaluated_value == "cpu"
    return name in ("cpu", "numpy", "tolist") and not (name == "cpu" and call.args)


def _is_deliberate(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether an autograd function works on the host, or a branch serves programs that keep their data there."""
    return hot_path.function == "backward" or conditions.chosen_for_device(model, site)


def _is_copied(model: Model, receiver: cst.BaseExpression) -> bool:
    """Whether the receiver's data are copied; unknown for an unknown object's `.cpu()`."""
    return model.value(receiver).kind is not Kind.UNKNOWN


def _is_part_of_read(model: Model, site: Site) -> bool:
    """Whether the copy is part of a scalar read such as `x.cpu().item()`, which other rules report."""
    return any(read.site.start <= site.start and site.end <= read.site.end for read in hot_reads(model))


def _must_be_on_host(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether the copy goes to something that only works on the host, or decides what the loop does next."""
    node: cst.CSTNode = site.node
    parent = model.parent(node)
    while parent is not None:
        if isinstance(parent, cst.Call) and isinstance(node, cst.Arg) and _works_on_host(model.text(parent.func)):
            return True
        if isinstance(parent, (cst.Index, cst.Slice)):
            return not _chooses_of_new(model, parent)
        if isinstance(parent, cst.Return):
            return _goes_out_of_sight(hot_path) or is_needed_by_callers(model, site, _works_on_host)
        if isinstance(parent, (cst.If, cst.While, cst.For)) and node is not getattr(parent, "body", None):
            return True
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            target = parent.targets[0].target
            if isinstance(target, cst.Subscript):
                return _goes_out_of_sight(hot_path)
            name = shape.dotted(target)
            return name is not None and _used_on_host(model, site, hot_path, name)
        node, parent = parent, model.parent(parent)
    return False


def _chooses_of_new(model: Model, index: cst.CSTNode) -> bool:
    """Whether it is an index of a tensor that this step makes: `torch.eye(n)[y.cpu()]` can be made on the device."""
    chosen = model.parent(model.parent(index) or index)
    built = built_on_host(model, chosen.value) if isinstance(chosen, cst.Subscript) else None
    return built is not None and not built.packs


def _goes_out_of_sight(hot_path: HotPath) -> bool:
    """Whether callers are not known that get what the function returns or fills, and may need it on the host."""
    return hot_path.loop is None and any(isinstance(step, Unproven) for step in hot_path.because)


def _works_on_host(function: str) -> bool:
    name = function.rpartition(".")[2]
    return name in NEEDS_HOST or name in WRITES_OUT or "env" in function.split(".")[:-1]


def _used_on_host(model: Model, site: Site, hot_path: HotPath, name: str) -> bool:
    """Whether a copy bound to a name is written out, or decides what the loop does, later in the step."""
    in_step = [use for use in model.uses(name, site, hot_path).of("load") if use.inside or hot_path.loop is None]
    return any(use.decides or _works_on_host(use.call or "") for use in in_step)


# -- the fix --------------------------------------------------------------------------------------------------------


def _fix(model: Model, site: Site, rows: Rows | None) -> Fix | NoFix:
    """Copy all rows at once where that is safe, or else collect on the device; of two reasons, the rows' one."""
    of_rows = NoFix.FORM if rows is None else copied_at_once(model, site, rows)
    if isinstance(of_rows, Fix) and of_rows.safety is Safety.SAFE:
        return of_rows
    collected = collected_on_device(model, site)
    return of_rows if isinstance(collected, NoFix) and rows is not None else collected
