"""`loss_fn(out, y, weights.to(device))` in a loop that never changes `weights`: the same copy in every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.transfer.invariants import invariant_path
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.idioms.writes import handed_to_writer, writes_in_place
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model


@rule(
    code="TPL204",
    name="loop-invariant-transfer",
    category=Category.TRANSFER,
    summary="the same object is moved to the device again on every pass of a loop",
    message="`{move}` {does} {where}, though `{name}` never changes in it",
    severity=Severity.WARNING,
    fix=Safety.UNSAFE,
    assumes="nothing in the loop changes or moves the object or writes to its copy, and the device has room",
    triggers=((".to(", ".cuda("),),
)
def loop_invariant_transfer(model: Model) -> Iterator[Finding]:
    """Moves in a batch loop of objects that the loop neither rebinds, nor writes, nor moves back to the host."""
    for move in hot_moves(model):
        path = invariant_path(model, move)
        if path is None:
            continue
        is_module = model.value(move.moved).kind in (Kind.MODULE, Kind.METRIC)
        fields = {
            "move": model.brief(move.site.node),
            "does": "walks over all parameters" if is_module else "copies the same data",
            "where": move.hot_path.where,
            "name": path,
        }
        yield Finding(move.site, move.hot_path.because, _hoist(model, move, path, is_module), fields)


def _hoist(model: Model, move: Move, path: str, is_module: bool) -> Fix | None:
    """Move it once, before the loop."""
    if not surroundings.always_in_loop(model, move.site, move.hot_path) or _depends_on_loop(model, move):
        return None
    title = "move it once, before the loop"
    if is_module:
        if not isinstance(model.parent(move.site.node), cst.Expr):
            return None
        lifted = placing.lifted(model, move.site, move.hot_path)
        return None if lifted is None else Fix(title, Safety.UNSAFE, lifted)
    if not path.isidentifier() or _is_used_otherwise(model, move, path) or _result_is_written(model, move):
        return None
    before = placing.before(model, move.hot_path, f"{path} = {model.text(move.site.node)}")
    after = edits.replace(move.site.tree, move.site.node, path)
    changed = edits.together(before, after)
    return None if changed is None else Fix(title, Safety.UNSAFE, changed)


def _depends_on_loop(model: Model, move: Move) -> bool:
    """Whether the call's arguments use a name that only the loop binds."""
    bound = surroundings.names_of_loop(model, move.hot_path)
    names = {argument.value for argument in shape.names_in(move.call)}
    given = [argument.value for argument in move.call.args]
    paths = {shape.dotted(each) for each in given} | {
        shape.dotted(each.value) for each in given if isinstance(each, cst.Attribute)
    }
    return bool((names | paths) & bound) or "\n" in model.text(move.site.node)


def _result_is_written(model: Model, move: Move) -> bool:
    """Whether the copy, or its name, is written to: each pass would then see the last one's result."""
    parent = model.parent(move.site.node)
    if not isinstance(parent, cst.Assign):
        return handed_to_writer(model, move.site, None)
    targets = [shape.dotted(target.target) for target in parent.targets]
    return any(
        target is None or writes_in_place(model, target, move.site) or handed_to_writer(model, move.site, target)
        for target in targets
    )


def _is_used_otherwise(model: Model, move: Move, name: str) -> bool:
    """Whether the loop or later code also uses the tensor on the host."""
    uses = model.uses(name, move.site, move.hot_path)
    start, end = move.site.start, move.site.end
    return not uses.local or any(
        use.nested or ((use.inside or use.after) and not start <= use.start < end) for use in uses.uses
    )
