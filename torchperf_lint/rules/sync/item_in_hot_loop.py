"""`loss_value = loss.item()` in every step: a read of a device scalar that no narrower rule owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.sync.reads import Role, hot_reads
from torchperf_lint.knowledge.loggers import READER_ENDINGS
from torchperf_lint.syntax import cst, edits, shape

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
    fix=Safety.UNSAFE,
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS)),),
)
def item_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Reads that end in a name, a dict or a return value, unless the program's next step depends on them."""
    for read in hot_reads(model):
        if read.role is not Role.OTHER:
            continue
        name = _bound_name(read)
        if name is not None and _steers(model, read, name):
            continue
        fix = None if name is None or read.by_helper else _read_where_needed(model, read, name)
        fields = {"read": model.brief(read.site.node), "where": read.heat.where}
        yield Finding(read.site, (*read.because, *read.heat.because), fix, fields)


def _bound_name(read: HostRead) -> str | None:
    """The name or path that `name = x.item()`, or `name = max(x.item(), 1)`, binds."""
    statement = read.parent
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        return shape.dotted(statement.targets[0].target)
    return None


def _steers(model: Model, read: HostRead, name: str) -> bool:
    """Whether a use in the step decides a branch, a size or an action: then the host needs the value anyway.

    A use of what is reckoned from it counts as well: `last = index + 1`, then `x[:last]`.
    What stands before the read in a function that is called per step does not use it: `if x is None: x = y.item()`.
    """
    names = surroundings.reckoned_from(model, name, read.site)
    loads = [use for each in names for use in model.uses(each, read.site, read.heat).of("load")]
    in_step = [use for use in loads if use.inside or (read.heat.loop is None and use.start > read.site.end)]
    return any((use.decides or "env" in (use.call or "").lower()) and not use.throttled for use in in_step)


def _read_where_needed(model: Model, read: HostRead, name: str) -> Fix | None:
    """Bind the tensor, and read it at its uses where each of them is throttled or behind the loop."""
    statement = read.parent
    uses = model.uses(name, read.site, read.heat)
    loads = uses.of("load")
    if not isinstance(statement, cst.Assign) or statement.value is not read.site.node or not name.isidentifier():
        return None
    if not uses.local or read.heat.loop is None or len(uses.of("store")) != 1 or uses.of("augment", "delete"):
        return None
    if not loads or any(use.nested or use.formatted_with_name for use in loads):
        return None
    if not all(use.throttled or (use.after and not use.again) for use in loads):
        return None
    if read.reader != "item" and not model.keeps_builtin(read.reader):
        return None
    changed = edits.together(
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + ".detach()"),
        *(Edit(use.start, use.end, _reading(read.reader, name).encode()) for use in loads),
    )
    return None if changed is None else Fix("read the value only where it is used", Safety.UNSAFE, changed)


def _reading(reader: str, name: str) -> str:
    """The read as it was, of the name: `item()` gives a float, an int or a bool, as the tensor's dtype is."""
    return f"{name}.item()" if reader == "item" else f"{reader}({name})"
