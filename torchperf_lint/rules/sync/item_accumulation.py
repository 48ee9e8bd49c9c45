"""`total += loss.item()`: a running sum that waits for the device in every step, deferred to the end of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.model.reads import Role, hot_reads
from torchperf_lint.model.values import Kind
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.flow import NameUses
    from torchperf_lint.model.reads import HostRead


@rule(
    code="TPL102",
    name="item-accumulation",
    category=Category.SYNC,
    summary="a running sum or list reads the device in every step, and its value is needed only later",
    message="`{read}` waits for the device on every pass of the {label}, though `{name}` is needed only {when}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    triggers=((".item", "float(", "int("), ("+=", ".append")),
)
def item_accumulation(model: Model) -> Iterator[Finding]:
    """Reads that feed a sum or a list which nothing looks at before the loop ends (or a throttle lets it)."""
    for read in hot_reads(model):
        if read.role not in (Role.ACCUMULATED, Role.COLLECTED):
            continue
        collected = read.role is Role.COLLECTED
        name = read.sink.removesuffix(".append")
        fix = _defer_list(model, read, name) if collected else _defer_sum(model, read, name)
        fields = {
            "read": model.text(read.site.node),
            "label": read.heat.label,
            "name": name,
            "when": "now and then" if _read_inside(model, read, name) else "later",
        }
        yield Finding(read.site, (*read.because, *read.heat.because), fix, fields)


def _read_inside(model: Model, read: HostRead, name: str) -> bool:
    return name.isidentifier() and any(use.throttled for use in model.uses(name, read.site, read.heat).of("load"))


def _defer_sum(model: Model, read: HostRead, name: str) -> Fix | None:
    """Keep the sum on the device in float64, in which Python itself would have added, and read it after the loop."""
    statement = read.parent
    if not isinstance(statement, cst.AugAssign) or not name.isidentifier() or not _loop_can_be_left_alone(model, read):
        return None
    uses = model.uses(name, read.site, read.heat)
    starts = [use.constant for use in uses.of("store")]
    if not _is_plain_counter(uses, starts):
        return None
    whole = _is_integer(model, read)
    if whole and all(type(start) is int for start in starts) and _scaled_by(model, read) is not None:
        convert, suffix = "int", ""
    else:
        convert, suffix = "float", ".double()"
        if _scaled_by(model, read) is None:
            return None
    detached = edits.postfix(read.site.tree, read.tensor) + ("" if whole else ".detach()") + suffix
    changed = [
        edits.replace(read.site.tree, read.site.node, detached),
        model.insert_after(read.heat, f"{name} = {convert}({name})"),
        *(Edit(use.start, use.end, f"{convert}({name})".encode()) for use in uses.of("load") if use.inside),
    ]
    if None in changed:
        return None
    # An empty loop would turn an integer start into a float, and float64 does not exist on every accelerator.
    float_before = all(type(start) is float for start in starts) or all(
        use.as_float
        for use in (*uses.of("load"), *uses.of("augment"))
        if use.after or (use.inside and use.kind == "load")
    )
    exact = convert == "int" or (float_before and not _may_lack_float64(model))
    known = whole or _is_floating(model, read)
    safety = Safety.SAFE if exact and known else Safety.UNSAFE
    return Fix("sum on the device, read once after the loop", safety, tuple(e for e in changed if e is not None))


def _defer_list(model: Model, read: HostRead, name: str) -> Fix | None:
    """Collect the tensors and bring them over in one copy after the loop."""
    append = read.parent
    if not isinstance(append, cst.Call) or not name.isidentifier() or not _loop_can_be_left_alone(model, read):
        return None
    if len(append.args) != 1 or append.args[0].value is not read.site.node:
        return None
    uses = model.uses(name, read.site, read.heat)
    stores = uses.of("store")
    fresh = len(stores) == 1 and stores[0].constant == "[]" and stores[0].same_block and not stores[0].inside
    loads = uses.of("load")
    alone = sum(use.inside for use in loads) == 1 and all(use.inside or use.after for use in loads)
    torch = model.name_of("torch", read.site)
    if (
        not (uses.local and fresh and alone and torch)
        or uses.of("augment", "delete")
        or any(u.nested for u in uses.uses)
    ):
        return None
    changed_later = isinstance(read.tensor, cst.Name) and any(
        use.inside for use in model.uses(read.tensor.value, read.site, read.heat).of("augment")
    )
    keep = ".detach().clone()" if changed_later or model.mentions("reduce-overhead", "CUDAGraph") else ".detach()"
    changed = [
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + keep),
        model.insert_after(read.heat, f"{name} = {torch}.stack({name}).flatten().tolist() if {name} else []"),
    ]
    if None in changed:
        return None
    known = _is_floating(model, read) or _is_integer(model, read)
    safety = Safety.SAFE if known else Safety.UNSAFE
    return Fix("collect on the device, read once after the loop", safety, tuple(e for e in changed if e is not None))


def _loop_can_be_left_alone(model: Model, read: HostRead) -> bool:
    """Whether what stands after the loop is reached whenever the loop is left, and nowhere else."""
    heat = read.heat
    return heat.loop is not None and not model.guarded_by_try(heat) and not model.has_else(heat)


def _is_plain_counter(uses: NameUses, starts: list[object]) -> bool:
    """A local number that only this loop adds to, and that is read only after it or under a throttle."""
    loads = uses.of("load")
    return (
        uses.local
        and bool(starts)
        and all(type(start) in (int, float) for start in starts)
        and sum(use.inside for use in uses.of("augment")) == 1
        and not uses.of("delete")
        and not any(use.nested for use in uses.uses)
        and not any(use.formatted_with_name for use in loads if use.inside)
        and all(use.throttled for use in loads if use.inside)
    )


def _scaled_by(model: Model, read: HostRead) -> str | None:
    """`""` if the read itself is added, the factor's text if it is multiplied or divided by a number; else None."""
    statement = read.parent
    assert isinstance(statement, cst.AugAssign)
    added = statement.value
    if added is read.site.node:
        return ""
    if isinstance(added, cst.BinaryOperation) and isinstance(added.operator, (cst.Multiply, cst.Divide)):
        other = added.right if added.left is read.site.node else added.left
        reads_first = added.left is read.site.node
        if (reads_first or (added.right is read.site.node and isinstance(added.operator, cst.Multiply))) and (
            model.value(other).kind is Kind.NUMBER
        ):
            return model.text(other)
    return None


def _is_integer(model: Model, read: HostRead) -> bool:
    return (model.value(read.tensor).dtype or "").startswith(("int", "uint", "bool"))


def _is_floating(model: Model, read: HostRead) -> bool:
    return (model.value(read.tensor).dtype or "").startswith(("float", "bfloat"))


def _may_lack_float64(model: Model) -> bool:
    return model.mentions("mps", "xpu", "npu", "xla")
