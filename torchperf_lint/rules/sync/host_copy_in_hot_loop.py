"""`preds.extend(out.cpu().numpy())` in every step: whole tensors are copied to the host batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, NoFix, Safety, Severity, Unproven
from torchperf_lint.idioms import conditions, habits, placing, surroundings
from torchperf_lint.idioms.caches import fills_table
from torchperf_lint.idioms.metrics.host_metrics import feeds_host_metric
from torchperf_lint.idioms.sync.brought_back import was_on_host
from torchperf_lint.idioms.sync.coalesced import is_one_read
from torchperf_lint.idioms.sync.destinations import goes_to, is_action
from torchperf_lint.idioms.sync.given import is_given_to_forward
from torchperf_lint.idioms.sync.helpers import helper_reads, stands_in_reader
from torchperf_lint.idioms.sync.hosttables import hot_fillings
from torchperf_lint.idioms.sync.hostwork import worked_on_at_once
from torchperf_lint.idioms.sync.kept import goes_backward_behind, is_never_written
from torchperf_lint.idioms.sync.numpywork import is_fetch
from torchperf_lint.idioms.sync.reads import hot_reads
from torchperf_lint.idioms.sync.rows import copied_at_once, is_walked, rows_copied, serves_rows
from torchperf_lint.idioms.transfer.construction import built_on_host
from torchperf_lint.idioms.transfer.roundtrips import goes_back
from torchperf_lint.knowledge.host_work import NEEDS_HOST, WRITES_OUT
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.rows import Rows
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import Use

_OTHER_MATTERS = (goes_back, is_fetch, feeds_host_metric, is_one_read, serves_rows)
"""Whether the copy is part of a round trip, feeds a score, or is itself one read of several numbers or rows."""

_BY_ELEMENT = frozenset("cpu to numpy tolist astype float double half long int bool".split())
"""Methods that have the same effect on single tensors as on their concatenation."""

_DETACH = frozenset({"detach"})
_JOINS = {
    "torch.cat": "cat",
    "torch.concat": "cat",
    "torch.concatenate": "cat",
    "torch.stack": "stack",
    "numpy.concatenate": "cat",
    "numpy.stack": "stack",
}


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


def _outermost(model: Model, call: cst.Call) -> cst.Call:
    """The last call of the method chain that contains the call."""
    while True:
        attribute = model.parent(call)
        outer = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
        if not isinstance(outer, cst.Call) or outer.func is not attribute:
            return call
        call = outer


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
            return _goes_out_of_sight(hot_path)
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
    collected = _collect_on_device(model, site)
    return of_rows if isinstance(collected, NoFix) and rows is not None else collected


class _Filling(NamedTuple):
    """How the list receives the copy: as one entry (`append`), or entry by entry (`extend`, `+=`)."""

    name: str
    node: cst.Call | cst.AugAssign
    entry_by_entry: bool


def _collect_on_device(model: Model, site: Site) -> Fix | NoFix:
    """Collect the tensors themselves and copy them after the loop, concatenated where that gives the same."""
    hot_path, outer, kept = model.hot_path(site), _outermost(model, site.node), shape.receiver(site.node)
    filling = _filling(model, outer)
    if filling is None or kept is None or hot_path is None:
        return goes_to(model, outer)
    if hot_path.loop is None:
        return NoFix.LOOP_ELSEWHERE
    uses = model.uses(filling.name, site, hot_path)
    if not surroundings.ends_plainly(model, hot_path, uses):
        return NoFix.MAY_BE_CAUGHT
    if not surroundings.only_filled(model, uses):
        return NoFix.USED_OTHERWISE
    chain = _chain(model, site.node, outer)
    methods = [shape.method_name(call) or "" for call in chain]
    if not _means_the_same_behind(model, site, hot_path, chain):
        return NoFix.VARIES
    has_graph = shape.without_calls(kept, _DETACH) is kept and not {"numpy", "tolist", "detach"}.intersection(methods)
    if has_graph and goes_backward_behind(model, site, hot_path):
        return NoFix.USED_OTHERWISE
    copy = "." + edits.text_of(site.tree, outer)[site.tree.span(site.node.func.attr)[0] - site.tree.span(outer)[0] :]
    entry = f"{filling.name}.append({_kept(model, site, hot_path, kept, copy)})"
    changed = edits.together(
        edits.replace(site.tree, filling.node, entry),
        _copied_after_loop(model, site, filling, copy, methods),
    )
    title = "collect on the device, which takes its memory, and copy after the loop"
    return NoFix.NO_ROOM if changed is None else Fix(title, Safety.UNSAFE, changed)


def _means_the_same_behind(model: Model, site: Site, hot_path: HotPath, chain: list[cst.Call]) -> bool:
    """Whether the methods' arguments (`astype(np.float32)`) mean the same after the loop as in each pass."""
    for call in chain:
        for argument in call.args:
            if any(True for _ in shape.calls_in(argument.value)):
                return False
            names = {name.value for name in shape.names_in(argument.value)}
            if names & {"kept", "each"}:
                return False
            stores = [
                use for name in names for use in model.uses(name, site, hot_path).of("store", "augment", "delete")
            ]
            if any(use.inside or use.after for use in stores):
                return False
    return True


def _filling(model: Model, copied: cst.Call) -> _Filling | None:
    parent = model.parent(copied)
    if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.AddAssign):
        target = parent.target
        return _Filling(target.value, parent, True) if isinstance(target, cst.Name) else None
    call = model.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
        return None
    method, filled = shape.method_name(call), shape.receiver(call)
    if method not in ("append", "extend") or not isinstance(filled, cst.Name):
        return None
    return _Filling(filled.value, call, method == "extend")


def _kept(model: Model, site: Site, hot_path: HotPath, tensor: cst.BaseExpression, copy: str) -> str:
    """The collected expression: detached, and copied if it would hold more memory or be overwritten."""
    bare = shape.without_calls(tensor, _DETACH)
    text = edits.postfix(site.tree, bare)
    shares = _is_part(bare) or not is_never_written(model, bare, site, hot_path) or habits.replays_graphs(model.code)
    # NumPy rejects tensors that require a gradient, so without `detach` there was none.
    detached = text if bare is tensor and ".numpy()" in copy and not shares else f"{text}.detach()"
    return f"{detached}.clone()" if shares else detached


def _is_part(tensor: cst.BaseExpression) -> bool:
    """Whether the tensor is a view of part of a larger one."""
    while True:
        if isinstance(tensor, cst.Subscript):
            return True
        viewed = shape.receiver(tensor) if isinstance(tensor, cst.Call) else None
        if viewed is None or not isinstance(tensor, cst.Call) or shape.method_name(tensor) not in VIEW_METHODS:
            return False
        if shape.method_name(tensor) in ("select", "narrow"):
            return True
        tensor = viewed


def _chain(model: Model, first: cst.Call, last: cst.Call) -> list[cst.Call]:
    """The chain's calls from `first` to `last`."""
    calls = [first]
    while first is not last:
        first = cst.ensure_type(model.parent(cst.ensure_type(model.parent(first), cst.Attribute)), cst.Call)
        calls.append(first)
    return calls


def _copied_after_loop(
    model: Model, site: Site, filling: _Filling, copy: str, methods: list[str]
) -> Edit | tuple[Edit, ...] | None:
    """The copy of the collected tensors to the host after the loop, so that the list's readers see the same values."""
    hot_path, name = model.hot_path(site), filling.name
    assert hot_path is not None
    readers = model.uses(name, site, hot_path).of("load")
    behind = [use for use in readers if use.after]
    if not behind:
        return None
    by_element = _BY_ELEMENT.issuperset(methods)
    if filling.entry_by_entry:
        torch = model.name_of("torch", site)
        receiver = shape.receiver(site.node)
        if by_element and torch is not None and receiver is not None and model.value(receiver).vector:
            joined = f"{torch}.cat({name}){copy}"
            joined = joined if methods[-1] == "tolist" else f"list({joined})"
            return placing.after(model, hot_path, f"{name} = {joined} if {name} else []")
        return placing.after(model, hot_path, f"{name} = [each for kept in {name} for each in kept{copy}]")
    joined_at = _joined_by(model, behind) if by_element and methods[-1] != "tolist" else None
    joined_on_device = None if joined_at is None else _joined_on_device(model, joined_at, copy, "numpy" in methods)
    return joined_on_device or placing.after(model, hot_path, f"{name} = [kept{copy} for kept in {name}]")


def _joined_by(model: Model, readers: list[Use]) -> Site | None:
    """The call that concatenates the list, if that is its only use."""
    for site in model.calls(*_JOINS) if len(readers) == 1 else ():
        if site.node.args and site.tree.span(site.node.args[0].value) == (readers[0].start, readers[0].end):
            return site
    return None


def _joined_on_device(model: Model, site: Site, copy: str, as_numpy: bool) -> tuple[Edit, ...] | None:
    """`np.concatenate(x)` becomes `torch.cat(x).cpu().numpy()`."""
    torch, end = model.name_of("torch", site), site.tree.span(site.node)[1]
    changed: list[Edit | None] = [Edit(end, end, copy.encode())]
    joins = model.value(site.node.func).ref or ""
    if surroundings.may_be_caught(model, site) or not all(map(_is_axis_or_name, site.node.args[1:])):
        return None  # `except ValueError` may handle NumPy's error for an empty list, and `out=` is on the host
    if joins.startswith("numpy."):
        others = site.node.args[1:]
        if torch is None or not as_numpy or len(others) > 1 or not all(map(_is_axis, others)):
            return None
        changed.append(edits.replace(site.tree, site.node.func, f"{torch}.{_JOINS[joins]}"))
        changed += [edits.replace(site.tree, other.keyword, "dim") for other in others if other.keyword is not None]
    elif as_numpy:
        return None
    return edits.together(*changed)


def _is_axis_or_name(argument: cst.Arg) -> bool:
    return not argument.star and (argument.keyword is None or argument.keyword.value in ("axis", "dim"))


def _is_axis(argument: cst.Arg) -> bool:
    """Whether the argument names the dimension to join; without one (`axis=None`), NumPy flattens first."""
    named = argument.keyword is None or argument.keyword.value == "axis"
    return named and not argument.star and isinstance(argument.value, (cst.Integer, cst.UnaryOperation))
