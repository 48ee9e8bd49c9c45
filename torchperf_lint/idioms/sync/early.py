"""Reads long before their first use in the step, with device work launched in between."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix
from torchperf_lint.idioms import placing
from torchperf_lint.idioms.sync.bound import read_where_needed
from torchperf_lint.idioms.sync.delays import delayed, relies_on_waits
from torchperf_lint.idioms.sync.reads import HostRead, Sink, hot_reads
from torchperf_lint.idioms.sync.waiting import Run, statements_around
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.site import first_row
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.delays import Delayed
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_COPIES = ("cpu", "tolist", "numpy")
_PARTS_OF_COPY = frozenset({*_COPIES, "detach"})
_LAUNCHES = frozenset("backward manual_backward".split())


class Early(NamedTuple):
    """A read, what it binds, the statement that first needs that, and the text of the read to put there."""

    read: HostRead
    name: str
    needed: ast.stmt
    moved: tuple[Edit, ...] | None


def early_reads(model: Model) -> Iterator[Early]:
    """The reads of a step that could wait for their first use in the same block, after device work."""
    if relies_on_waits(model):
        return
    for read in sorted((*_numbers(model), *_copies(model)), key=lambda read: read.site.start):
        later = delayed(model, read)
        if later is None or isinstance(read_where_needed(model, read), Fix):
            continue
        needed = _first_use(model, later)
        if needed is not None:
            yield Early(read, later.name, needed, _moved(model, later, needed))


def _numbers(model: Model) -> Iterator[HostRead]:
    return (read for read in hot_reads(model) if read.role is Sink.OTHER)


def _copies(model: Model) -> Iterator[HostRead]:
    """`a = x.detach().cpu().numpy()` as a read of `x`."""
    behind = 0
    for site in model.method_calls(*_COPIES, hot=True):
        if site.node.args or site.start < behind:
            continue
        whole: cst.CSTNode = site.node
        while isinstance(attribute := model.parent(whole), cst.Attribute):
            call = model.parent(attribute)
            if not isinstance(call, cst.Call) or call.args or shape.method_name(call) not in _PARTS_OF_COPY:
                break
            whole = call
        tensor = shape.without_calls(cst.ensure_type(whole, cst.Call), _PARTS_OF_COPY)
        because, hot_path, given = model.on_device(tensor), model.hot_path(site), model.parent(whole)
        if because is not None and hot_path is not None and isinstance(given, cst.Assign):
            behind = model.site(whole).end
            yield HostRead(model.site(whole), tensor, Sink.OTHER, "", given, hot_path, because)


def _first_use(model: Model, later: Delayed) -> ast.stmt | None:
    """The block's first statement that uses the name; None if the read cannot, or need not, wait for it."""
    place, statements = model.place_of(later.statement), statements_around(model, later.statement)
    needed = statements.next_mention(later.name, place.position)
    if needed is None or not statements.may_wait(later, place.position + 1, needed):
        return None
    idle = model.remember(
        ("idle", id(place.block)), lambda: Run(lambda at: not _launches(model, place.function, place.block[at]))
    )
    return None if idle.spans(place.position + 1, needed) else place.block[needed]


def _launches(model: Model, function: FunctionInfo, statement: ast.stmt) -> bool:
    """Whether the statement launches much device work: a module's call, a backward pass, an optimizer's step."""
    for node in subtree(statement):
        if not isinstance(node, ast.Call):
            continue
        if model.value_in(function, node.func).kind is Kind.MODULE:
            return True
        if isinstance(node.func, ast.Attribute):
            owner = model.value_in(function, node.func.value)
            if node.func.attr in _LAUNCHES or (
                node.func.attr == "step" and owner.kind in (Kind.OPTIMIZER, Kind.SCALER)
            ):
                return True
    return False


def _moved(model: Model, later: Delayed, needed: ast.stmt) -> tuple[Edit, ...] | None:
    """Move the read to the statement that needs it; what it computes first is computed where it stands now."""
    source, row, read = model.source, first_row(needed), later.read
    indent = source.line(needed.lineno)[: needed.col_offset]
    if indent.strip() or source.line(row)[: len(indent)] != indent:
        return None
    line: str = source.line(later.statement.lineno).strip()
    left = placing.deleted(model, read.site)
    if later.tensor is None:
        reader = {"item": f"{later.name}.item()"}.get(read.reader, f"{read.reader}({later.name})")
        line = f"{later.name} = {reader}"
        bound = edits.postfix(read.site.tree, read.tensor) + ".detach()"
        is_scalar = shape.method_name(read.site.node) not in _PARTS_OF_COPY
        left = edits.replace(read.site.tree, read.site.node, bound) if is_scalar else None
    place = source.line_starts[row - 1]
    return edits.together(left, Edit(place, place, f"{indent}{line}{source.newline}".encode()))
