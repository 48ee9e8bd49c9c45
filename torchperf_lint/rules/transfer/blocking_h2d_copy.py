"""`images.to(device)` for a loader's batch, without `non_blocking=True`: the host waits for the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.data.pinning import pinned_too
from torchperf_lint.idioms.scripting import is_perhaps_scripted
from torchperf_lint.idioms.transfer import pinned_copies
from torchperf_lint.idioms.transfer.host_data import copies_host_data
from torchperf_lint.idioms.transfer.options import does_not_wait_beside, waits_by_default
from torchperf_lint.idioms.transfer.roundtrips import comes_from_there
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.idioms.transfer.written_there import hot_uploads
from torchperf_lint.idioms.writes import (
    acts_as_tensor,
    collates_tensors,
    comes_from_dict,
    has_blocking_mover,
    has_own_mover,
    host_batch_written_after,
    host_batch_written_by_callers,
    is_host_batch,
    is_written_after,
)
from torchperf_lint.model.domain.values import Kind, Origin
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model

_WHOLE = ("int", "uint")
_COPIED = frozenset({NoFix.NOT_PINNED, NoFix.MAY_BE_WRITTEN})
"""The reasons for which the batch itself cannot be copied without a wait."""


@rule(
    code="TPL203",
    name="blocking-h2d-copy",
    category=Category.TRANSFER,
    summary="a batch, or a part of host data, is copied to the device while the host waits",
    message="`{copy}` makes the host wait until the copy is done, {where}",
    severity=Severity.ERROR,
    copies_batches=True,
    fix=Safety.SAFE,
    assumes="nothing writes to the source during the copy, which is a plain tensor, and the device is not MPS",
    triggers=((".to(", ".cuda(", ".copy_(", "] ="),),
)
def blocking_h2d_copy(model: Model) -> Iterator[Finding]:
    """Moves of a loader's batch or of other host data without `non_blocking`, and writes of it into device tensors."""
    for move in hot_moves(model):
        is_batch = is_host_batch(model.value(move.moved))
        if move.like or not (is_batch or copies_host_data(model, move)) or comes_from_there(model, move):
            continue
        option = waits_by_default(model, move) if move.non_blocking else None
        if move.non_blocking and option is None:
            continue
        fields = {"copy": model.brief(move.site.node), "where": move.hot_path.where}
        fix = NoFix.OPTION if option else _do_not_wait(model, move)
        if fix is not NoFix.OPTION:
            fix = _best(fix, pinned_copies.sent(model, move, acts_as_tensor=_acts_as_tensor(model, move)))
        yield Finding(move.site, (*(option or ()), *move.hot_path.because), fix, fields)
    for upload in hot_uploads(model):
        fields = {"copy": upload.write, "where": upload.hot_path.where}
        yield Finding(upload.site, (*upload.because, *upload.hot_path.because), upload.fix, fields)


def _best(fix: Fix | NoFix, copy: Fix | NoFix) -> Fix | NoFix:
    """The copy from pinned memory, where it is safer than the argument, or the batch cannot have the argument."""
    if isinstance(fix, NoFix):
        return copy if fix in _COPIED and isinstance(copy, Fix) else fix
    return copy if isinstance(copy, Fix) and copy.safety.rank < fix.safety.rank else fix


def _do_not_wait(model: Model, move: Move) -> Fix | NoFix:
    """Add `non_blocking=True`, or what is true on a machine with CUDA alone."""
    if model.value(move.moved).origin is not Origin.BATCH:
        return NoFix.NOT_PINNED  # the driver stages strided or newly allocated memory, even from a pinned batch
    if is_written_after(model, move.site, move.moved):
        return NoFix.MAY_BE_WRITTEN  # the copy may not have read it yet
    safe = (
        _takes_the_argument(model, move)
        and _casts_alike(model, move)
        and not host_batch_written_after(model, move.site)
        and not host_batch_written_by_callers(model, move.site)
        and not pinned_copies.rests_on_waits(model)
    )
    asked, pinned = "True", None
    if safe and not model.is_cuda(model.value(move.call).device) and not does_not_wait_beside(model, move):
        torch = model.name_of("torch", move.site)
        if (
            torch is not None
            and not pinned_copies.starts_processes(model)
            and not is_perhaps_scripted(model, move.site)
        ):
            pinned = pinned_too(model, model.value(move.moved))
        safe = pinned is not None
        if safe:  # copies to Apple's devices would read freed memory
            asked = f"{torch}.cuda.is_available()"
    changed = edits.together(edits.add_argument(move.site.tree, move.call, f"non_blocking={asked}"), pinned or ())
    if changed is None:
        return NoFix.NO_ROOM
    grade = Safety.SAFE if safe else Safety.SHOWN if _may_raise(model, move) else Safety.UNSAFE
    return Fix("copy without waiting", grade, changed)


def _may_raise(model: Model, move: Move) -> bool:
    """Whether the moved object may be of a known class whose method does not take the argument."""
    value = model.value(move.moved)
    is_tensor = value.kind is Kind.TENSOR or collates_tensors(value)
    return not is_tensor and has_blocking_mover(model, shape.method_name(move.call) or "", move.site)


def _casts_alike(model: Model, move: Move) -> bool:
    """Whether a cast in the call, now done by the device, gives the same; NaN and overflows differ for integers."""
    if move.dtype is None:
        return True
    wanted, given = model.value(move.dtype).dtype, model.value(move.moved).dtype
    if isinstance(move.dtype, cst.Name) and not model.binds(move.dtype.value, move.site):
        wanted = None  # a parameter: a call that leaves it out has its default
    if wanted is None or wanted.startswith(_WHOLE):
        return given is not None and given.startswith(_WHOLE)
    return True


def _takes_the_argument(model: Model, move: Move) -> bool:
    """Whether the moved object is a tensor as far as the file shows, not a batch object of its own class."""
    moved, value = move.moved, model.value(move.moved)
    method = shape.method_name(move.call) or ""
    if value.kind is Kind.TENSOR or collates_tensors(value):
        return True
    if has_blocking_mover(model, method, move.site):
        return False
    if method == "cuda":
        return True
    if isinstance(moved, cst.Subscript):
        return all(
            isinstance(part.slice, cst.Index) and isinstance(part.slice.value, cst.SimpleString) for part in moved.slice
        )
    if isinstance(moved, cst.Name):
        return _is_dict_value(model, move, moved.value) or acts_as_tensor(model, moved.value, move.site)
    return False


def _acts_as_tensor(model: Model, move: Move) -> bool:
    """The same, or an attribute that holds an entry of a dict, to which other functions may write, perhaps."""
    path = shape.dotted(move.moved)
    if has_own_mover(model, shape.method_name(move.call) or ""):
        return False  # its parameters may have another order, or take keywords alone
    return _takes_the_argument(model, move) or (path is not None and comes_from_dict(model, path, move.site))


def _is_dict_value(model: Model, move: Move, name: str) -> bool:
    """Whether `name` is the value of `for key, name in batch.items()` in a comprehension around the move."""
    parent = model.parent(move.site.node)
    while parent is not None:
        if isinstance(parent, (cst.DictComp, cst.ListComp, cst.GeneratorExp)):
            walked = parent.for_in.iter
            if isinstance(walked, cst.Call) and shape.method_name(walked) in ("items", "values"):
                targets = parent.for_in.target
                last = targets.elements[-1].value if isinstance(targets, cst.Tuple) else targets
                return isinstance(last, cst.Name) and last.value == name
        parent = model.parent(parent)
    return False
