"""`total += loss.item()`: a running sum that waits in every step; the fix defers the read to the loop's end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.scripting import judged_at
from torchperf_lint.idioms.sync.ahead import read_ahead_or
from torchperf_lint.idioms.sync.coalesced import coalesced_fixes
from torchperf_lint.idioms.sync.entries import kept_in_entries
from torchperf_lint.idioms.sync.factors import scale_of
from torchperf_lint.idioms.sync.filled_lists import adds_a_list, filled_in
from torchperf_lint.idioms.sync.fresh import is_fresh
from torchperf_lint.idioms.sync.own_sums import kept_in_objects
from torchperf_lint.idioms.sync.put_off import put_off
from torchperf_lint.idioms.sync.reads import Sink, hot_reads, may_lack_float64
from torchperf_lint.idioms.sync.side_by_side import read_side_by_side
from torchperf_lint.idioms.transfer.pinned_copies import rests_on_waits
from torchperf_lint.knowledge.loggers import READER_ENDINGS
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import NameUses

_ASSUMES_ORDER = "no other copy, stream or event needs this wait"


@rule(
    code="TPL102",
    name="item-accumulation",
    category=Category.SYNC,
    summary="a running sum or list reads the device in every step, and its value is needed only later",
    message="`{read}` waits for the device {where}{use}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the last digits of the result may differ, and the device has float64",
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS)), ("+=", ".append")),
)
def item_accumulation(model: Model) -> Iterator[Finding]:
    """Reads that feed a sum or a list that is not used before the loop ends (except under a sampling guard)."""
    for read in hot_reads(model):
        if read.role not in (Sink.ACCUMULATED, Sink.COLLECTED):
            continue
        collected = read.role is Sink.COLLECTED or adds_a_list(read)
        name = read.sink.removesuffix(".append")
        defer = _defer_list if collected else _defer_sum
        fix = read.unfixed or _without_wait(model, judged_at(model, read.site, defer(model, read, name)))
        if fix is NoFix.PUT_IN_A_CONTAINER:
            fix = _without_wait(model, kept_in_entries(model, read))
        if fix is NoFix.KEPT_IN_AN_OBJECT:
            fix = kept_in_objects(model, read)
        if isinstance(fix, NoFix) and not read.is_mixed:
            start = read.site.start
            fix = coalesced_fixes(model).get(start) or read_ahead_or(
                model, read, read_side_by_side(model).get(start, fix)
            )
        fields = {"read": model.brief(read.site.node), "where": read.hot_path.where, "use": _use(model, read, name)}
        yield Finding(read.site, (*read.because, *read.hot_path.because), fix, fields)


def _without_wait(model: Model, fix: Fix | NoFix) -> Fix | NoFix:
    """The fix, which is no safe one where other copies may rest on the wait that it takes away."""
    if isinstance(fix, NoFix) or fix.safety is not Safety.SAFE or not rests_on_waits(model):
        return fix
    return fix._replace(safety=Safety.UNSAFE, assumes=_ASSUMES_ORDER)


def _use(model: Model, read: HostRead, name: str) -> str:
    """The number's use, as the end of the message."""
    if not name.isidentifier():
        return f" to be {read.role.value.replace('a running sum', f'`{name}`').replace('a list', f'`{name}`')}"
    now_and_then = model.uses(name, read.site, read.hot_path).is_read_now_and_then
    return f", though `{name}` is needed only {'now and then' if now_and_then else 'later'}"


_MANY = "all passes read tensors of one device, shape and dtype, and it has room for a number of each"


# -- sums -----------------------------------------------------------------------------------------------------------


_SUM_TITLE = "sum on the device, read once after the loop"
_ASSUMES_ONE_DEVICE = "all summed tensors live on one device"


class _Deferral(NamedTuple):
    """How to keep a sum on the device: the replacement of each read, the final read, and how exact this is."""

    kept: str
    convert: str
    safety: Safety


def _defer_sum(model: Model, read: HostRead, name: str) -> Fix | NoFix:
    """Keep the sum on the device in float64, Python's own precision, and read it after the loop."""
    statement = read.parent
    if not isinstance(statement, cst.AugAssign):
        return NoFix.FORM
    hindrance = _hindrance(model, read, name)
    if hindrance is not None:
        return hindrance
    uses = model.uses(name, read.site, read.hot_path)
    starts = [use.constant for use in uses.of("store")]
    if not uses.is_plain_counter:
        needed = any(use.inside and not use.sampled for use in uses.of("load"))
        return NoFix.NEEDED_IN_THE_STEP if needed else NoFix.USED_OTHERWISE
    how = _deferral(model, read, uses, starts)
    if isinstance(how, NoFix) or how.safety is not Safety.SAFE:
        told = _told_as_it_runs(model, read, name, uses)
        if told is not None:
            return told
    if isinstance(how, NoFix):
        return how
    if not model.keeps_builtin(how.convert):
        return NoFix.NO_ROOM
    kept = edits.postfix(read.site.tree, read.tensor) + how.kept
    changed = _summed(model, read, name, uses, kept, how.convert)
    return NoFix.NO_ROOM if changed is None else Fix(_SUM_TITLE, how.safety, changed)


def _summed(
    model: Model, read: HostRead, name: str, uses: NameUses, kept: str, convert: str
) -> tuple[Edit, ...] | None:
    """The edits that add `kept` in the place of the read, and convert the sum where it is used."""
    made = [
        edits.replace(read.site.tree, read.site.node, kept),
        *(Edit(use.start, use.end, f"{convert}({name})".encode()) for use in uses.of("load") if use.inside),
    ]
    if any(not use.inside for use in uses.of("load", "augment")):
        made.append(placing.after(model, read.hot_path, f"{name} = {convert}({name})"))
    return edits.together(*made)


def _told_as_it_runs(model: Model, read: HostRead, name: str, uses: NameUses) -> Fix | None:
    """A sum whose numbers are read at once where the program then shows that a sum on the device is not the same."""
    floats = all(type(use.constant) is float for use in uses.of("store"))
    scale, later = scale_of(model, read), put_off(model, read, to_float=floats)
    if later is None or scale is None or not scale.exact:
        return None
    changed = edits.together(later.definitions, _summed(model, read, name, uses, later.kept, later.convert))
    return None if changed is None else Fix(_SUM_TITLE, Safety.UNSAFE, changed, _ASSUMES_ONE_DEVICE)


def _hindrance(model: Model, read: HostRead, name: str) -> NoFix | None:
    """What keeps a read from moving behind the loop, whatever is done with the numbers."""
    if not name.isidentifier():
        return NoFix.PUT_IN_A_CONTAINER if "[" in name else NoFix.KEPT_IN_AN_OBJECT
    if read.hot_path.loop is None:
        return NoFix.LOOP_ELSEWHERE
    uses = model.uses(name, read.site, read.hot_path)
    return None if surroundings.ends_plainly(model, read.hot_path, uses) else NoFix.MAY_BE_CAUGHT


def _deferral(model: Model, read: HostRead, uses: NameUses, starts: list[object]) -> _Deferral | NoFix:
    """The exact form of a device-side sum, or the nearest one; no fix where the types are unknown."""
    dtype = model.value(read.tensor).dtype or ""
    whole = dtype.startswith(("int", "uint", "bool"))
    reader = read.reader
    scale = scale_of(model, read)
    if scale is None:
        return NoFix.COMPUTED_WITH
    if reader == "int" and not whole:
        return NoFix.DTYPE_UNKNOWN
    alike = _is_alike(model, read)
    if not alike and not model.value(read.tensor).scalar:
        return NoFix.SHAPE_UNKNOWN  # A sum's shape cannot change.
    if whole and len({type(start) for start in starts}) > 1:
        return NoFix.DTYPE_UNKNOWN  # an int in some passes and a float in others
    if whole and reader != "float" and scale.whole and all(type(start) is int for start in starts):
        # A sum of smaller integers would overflow where Python's does not.
        kept = "" if dtype in ("int64", "bool") else ".long()"
        return _Deferral(kept, "int", Safety.SAFE if alike else Safety.UNSAFE)
    if whole and reader != "float" and scale.whole is None:
        return NoFix.DTYPE_UNKNOWN
    # With an empty loop an integer start would become a float: harmless where every use converts it to float.
    float_before = all(type(start) is float for start in starts) or all(
        use.as_float for use in (*uses.of("load"), *(use for use in uses.of("augment") if not use.inside))
    )
    known = whole or dtype.startswith(("float", "bfloat"))
    exact = known and alike and float_before and scale.exact and not may_lack_float64(model, read.tensor)
    return _Deferral(".detach().double()", "float", Safety.SAFE if exact else Safety.UNSAFE)


def _is_alike(model: Model, read: HostRead) -> bool:
    """Whether every pass reads a tensor of the same shape and dtype, if one expression always gives the same."""
    value = model.value(read.tensor)
    if (value.scalar and value.dtype is not None) or not isinstance(read.tensor, cst.Name):
        return True
    return len(model.uses(read.tensor.value, read.site, read.hot_path).of("store", "augment")) <= 1


# -- lists ----------------------------------------------------------------------------------------------------------


def _defer_list(model: Model, read: HostRead, name: str) -> Fix | NoFix:
    """Collect the tensors and copy them to the host at once after the loop."""
    append = read.parent
    if not isinstance(append, cst.Call) and not adds_a_list(read):
        return NoFix.FORM
    hindrance = _hindrance(model, read, name)
    if hindrance is not None:
        return hindrance
    if isinstance(append, cst.Call) and (len(append.args) != 1 or append.args[0].value is not read.site.node):
        return NoFix.COMPUTED_WITH
    if not _gives_the_same(model, read) or not _is_alike(model, read):
        return NoFix.DTYPE_UNKNOWN
    torch = model.name_of("torch", read.site)
    if torch is None:
        return NoFix.NO_ROOM
    filled = filled_in(model, read, name)
    if filled is None or (filled is not read.hot_path and rests_on_waits(model)):
        return NoFix.USED_OTHERWISE
    kept = ".detach()" if is_fresh(model, read) else ".detach().clone()"
    changed = edits.together(
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + kept),
        placing.after(model, filled, f"{name} = {torch}.stack({name}).flatten().tolist() if {name} else []"),
    )
    title = "collect on the device, read once after the loop"
    if changed is None:
        return NoFix.NO_ROOM
    return Fix(title, Safety.SAFE, changed) if filled is read.hot_path else Fix(title, Safety.UNSAFE, changed, _MANY)


def _gives_the_same(model: Model, read: HostRead) -> bool:
    """Whether `tolist()` gives the same numbers as the read: always for `item()`, otherwise by dtype."""
    dtype = model.value(read.tensor).dtype or ""
    return read.reader == "item" or dtype.startswith(("float", "bfloat") if read.reader == "float" else ("int", "uint"))
