"""Several reads of one block as one: `a, b = torch.stack([x, y]).tolist()` at the place of the last of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.idioms import placing
from torchperf_lint.idioms.sync import scalars
from torchperf_lint.idioms.sync.bound import read_where_needed
from torchperf_lint.idioms.sync.delays import Delayed, delayed, may_run_first, relies_on_waits
from torchperf_lint.idioms.sync.reads import Role, hot_reads
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.idioms.sync.scalars import Scalar
    from torchperf_lint.model import Model, Site

_NOT_ALIKE = (
    "DTensor",
    "loss_parallel",
    "parallelize_module",
    "fully_shard",
    "distribute_tensor",
    ".reduction =",
    "setattr(",
)
"""Texts in files where a loss may be no plain tensor, or not the one that its function gives by default."""


def is_one_read(model: Model, site: Site) -> bool:
    """Whether `a, b = torch.stack([x, y]).tolist()` brings as many numbers to the host as it names."""
    stacked, given = shape.receiver(site.node), model.parent(site.node)
    if shape.method_name(site.node) != "tolist" or not isinstance(stacked, cst.Call) or len(stacked.args) != 1:
        return False
    if not isinstance(given, cst.Assign) or len(given.targets) != 1 or model.value(stacked.func).ref != "torch.stack":
        return False
    tensors, names = stacked.args[0].value, given.targets[0].target
    return (
        isinstance(tensors, (cst.List, cst.Tuple))
        and isinstance(names, cst.Tuple)
        and len(tensors.elements) == len(names.elements)
        and all(isinstance(each, cst.Element) for each in (*tensors.elements, *names.elements))
    )


class _Member(NamedTuple):
    """A read, and what is known of its tensor: `scalar` is None where it only seems to be a float of no dimension."""

    later: Delayed
    kind: str
    scalar: Scalar | None


def coalesced_fixes(model: Model) -> dict[int, Fix]:
    """By the start of each read that can be brought to the host with others of its block: the fix for all of them."""
    return model.remember("coalesced_fixes", lambda: dict(_fixes(model)))


def _fixes(model: Model) -> Iterator[tuple[int, Fix]]:
    blocks: dict[int, list[HostRead]] = {}
    for read in hot_reads(model):
        if read.role is Role.OTHER and isinstance(read.parent, cst.Assign) and read.parent.value is read.site.node:
            block = model.index.places[model.statement_of(read.site.node)].block
            blocks.setdefault(id(block), []).append(read)
    several = [reads for reads in blocks.values() if len(reads) > 1]
    if not several or model.mentions(*_NOT_ALIKE) or relies_on_waits(model):
        return
    for reads in several:
        members: dict[ast.stmt, _Member] = {member.later.statement: member for member in _members(model, reads)}
        for group in _groups(model, members) if len(members) > 1 else ():
            fix = _one_read(model, group)
            if fix is not None:
                yield from ((member.later.read.site.start, fix) for member in group)


def _members(model: Model, reads: list[HostRead]) -> Iterator[_Member]:
    for read in reads:
        later = delayed(model, read)
        node = model.ast_of(read.tensor)
        if later is None or node is None or read_where_needed(model, read) is not None:
            continue
        function = model.function_of(read.site)
        value = model.value(read.tensor)
        scalar = None if value.mixed else scalars.shown(model, function, node)
        if scalar is not None:
            if read.reader in ("item", "float" if scalar.kind == scalars.FLOAT else "int"):
                yield _Member(later, scalar.kind, scalar)
        elif read.reader != "int" and (model.sent_backward(read.tensor) or scalars.likely(model, function, node)):
            yield _Member(later, scalars.FLOAT, None)


def _groups(model: Model, members: dict[ast.stmt, _Member]) -> Iterator[list[_Member]]:
    """Reads of one kind such that each may wait for the last of them."""
    place = model.index.places[next(iter(members))]
    open_groups: dict[str, list[_Member]] = {}
    for statement in place.block:
        member = members.get(statement)
        for kind, group in list(open_groups.items()):
            stays = all(may_run_first(model, statement, each.later) for each in group)
            if not stays:
                yield from [group] if len(group) > 1 else []
                del open_groups[kind]
        if member is not None:
            open_groups.setdefault(member.kind, []).append(member)
    yield from (group for group in open_groups.values() if len(group) > 1)


def _one_read(model: Model, group: list[_Member]) -> Fix | None:
    last = group[-1].later
    assert isinstance(last.read.parent, cst.Assign)
    torch = model.name_of("torch", last.read.site)
    if torch is None or any(not each.later.read.site.tree.lossless for each in group):
        return None
    made: list[Edit | None] = []
    tensors = []
    for each in group[:-1]:
        read, gone = each.later.read, None
        if each.later.tensor is not None:
            gone = placing.deleted(model, read.site)
        tensors.append(each.later.name if gone is None else str(each.later.tensor))
        bound = edits.postfix(read.site.tree, read.tensor) + ".detach()"
        made.append(gone or edits.replace(read.site.tree, read.site.node, bound))
    tensors.append(edits.text_of(last.read.site.tree, last.read.tensor))
    names = ", ".join(each.later.name for each in group[:-1])
    start, _ = last.read.site.tree.span(last.read.parent.targets[0].target)
    made.append(Edit(start, start, f"{names}, ".encode()))
    one = f"{torch}.stack([{', '.join(tensors)}]).tolist()"
    changed = edits.together(*made, edits.replace(last.read.site.tree, last.read.site.node, one))
    if changed is None:
        return None
    known = [each.scalar for each in group if each.scalar is not None]
    function = model.function_of(last.read.site)
    shown = len(known) == len(group) and scalars.on_one_device(model, function, known)
    return Fix("read the numbers of the step at once", Safety.SAFE if shown else Safety.UNSAFE, changed)
