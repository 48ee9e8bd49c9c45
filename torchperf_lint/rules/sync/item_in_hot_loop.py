"""`loss_value = loss.item()` in every step: a read of a device scalar that no narrower rule owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.model.reads import Role, hot_reads
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.flow import NameUses
    from torchperf_lint.model.reads import HostRead


@rule(
    code="TPL101",
    name="item-in-hot-loop",
    category=Category.SYNC,
    summary="a device scalar is read on the host in every step",
    message="`{read}` waits for the device on every pass of the {label}",
    severity=Severity.ERROR,
    fix=Safety.UNSAFE,
    triggers=((".item", "float(", "int("),),
)
def item_in_hot_loop(model: Model) -> Iterator[Finding]:
    """Reads that end in a name, a dict or a return value, unless the program's next step depends on them."""
    for read in hot_reads(model):
        if read.role is not Role.OTHER:
            continue
        name = _bound_name(read)
        uses = None if name is None else model.uses(name, read.site, read.heat)
        if uses is not None and _steers(uses):
            continue
        fix = None if name is None or uses is None else _read_where_needed(model, read, name, uses)
        fields = {"read": model.text(read.site.node), "label": read.heat.label}
        yield Finding(read.site, (*read.because, *read.heat.because), fix, fields)


def _bound_name(read: HostRead) -> str | None:
    """The local name that `name = x.item()` binds."""
    statement = read.parent
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and statement.value is read.site.node:
        target = statement.targets[0].target
        return target.value if isinstance(target, cst.Name) else None
    return None


def _steers(uses: NameUses) -> bool:
    """Whether every use in the loop decides a branch or acts on an environment: then the host needs the value."""
    inside = [use for use in uses.of("load") if use.inside and not use.throttled]
    return bool(inside) and all(use.decides or "env" in (use.call or "").lower() for use in inside)


def _read_where_needed(model: Model, read: HostRead, name: str, uses: NameUses) -> Fix | None:
    """Bind the tensor, and read it at its uses where each of them is throttled or behind the loop."""
    loads = uses.of("load")
    if not uses.local or read.heat.loop is None or len(uses.of("store")) != 1 or uses.of("augment", "delete"):
        return None
    if not loads or any(use.nested or use.formatted_with_name for use in loads):
        return None
    if not all(use.throttled or use.after for use in loads):
        return None
    convert = "int" if (model.value(read.tensor).dtype or "").startswith("int") else "float"
    changed = [
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + ".detach()"),
        *(Edit(use.start, use.end, f"{convert}({name})".encode()) for use in loads),
    ]
    if None in changed:
        return None
    return Fix("read the value only where it is used", Safety.UNSAFE, tuple(e for e in changed if e is not None))
