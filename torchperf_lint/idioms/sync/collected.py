"""What a loop copies to the host and only collects there: collected on the device, and copied behind the loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import habits, placing, surroundings
from torchperf_lint.idioms.sync.destinations import goes_to
from torchperf_lint.idioms.sync.kept import goes_backward_behind, is_never_written
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import Use

_BY_ELEMENT = frozenset("detach cpu to numpy tolist astype float double half long int bool".split())
"""Methods that have the same effect on single tensors as on their concatenation."""

_DETACH = frozenset({"detach"})
_JOINS = {
    "torch.cat": "cat",
    "torch.concat": "cat",
    "torch.concatenate": "cat",
    "torch.stack": "stack",
    "numpy.concatenate": "cat",
    "numpy.stack": "stack",
    "numpy.vstack": "vstack",
    "numpy.hstack": "hstack",
}


def _outermost(model: Model, call: cst.Call) -> cst.Call:
    """The last call of the method chain that contains the call."""
    while (outer := _next(model, call)) is not None:
        call = outer
    return call


def _next(model: Model, call: cst.Call) -> cst.Call | None:
    """The call of a method of what a call gives, or of its `.data`."""
    attribute = model.parent(call)
    if isinstance(attribute, cst.Attribute) and attribute.attr.value == "data":
        attribute = model.parent(attribute)
    outer = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    return outer if isinstance(outer, cst.Call) and outer.func is attribute else None


class _Filling(NamedTuple):
    """How the list receives the copy: as one entry (`append`), or entry by entry (`extend`, `+=`).

    `bound` is the name that has the copy until then.
    """

    name: str
    node: cst.Call | cst.AugAssign
    entry_by_entry: bool
    bound: str = ""


def collected_on_device(model: Model, site: Site) -> Fix | NoFix:
    """Collect the tensors themselves and copy them after the loop, concatenated where that gives the same."""
    hot_path, outer, kept = model.hot_path(site), _outermost(model, site.node), shape.receiver(site.node)
    filling = _filling(model, outer) or _filled_by_name(model, site, outer)
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
    there = _kept(model, site, hot_path, kept, copy)
    entry = f"{filling.name}.append({filling.bound or there})"
    tree = model.site(filling.node).tree
    changed = edits.together(
        edits.replace(tree, filling.node, entry) if filling.entry_by_entry or not filling.bound else (),
        _bound_there(model, site, outer, there) if filling.bound else (),
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
    return _filled_by(model.parent(parent) if isinstance(parent, cst.Arg) else parent)


def _filled_by(node: cst.CSTNode | None) -> _Filling | None:
    """The list that a call or a `+=` fills with one thing."""
    if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
        return _Filling(node.target.value, node, True) if isinstance(node.target, cst.Name) else None
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].star or node.args[0].keyword is not None:
        return None
    method, filled = shape.method_name(node), shape.receiver(node)
    if method not in ("append", "extend") or not isinstance(filled, cst.Name):
        return None
    return _Filling(filled.value, node, method == "extend")


def _filled_by_name(model: Model, site: Site, copied: cst.Call) -> _Filling | None:
    """`row = x.cpu()`, and `rows.append(row)` below it, if nothing else takes the copy by that name."""
    bound = model.parent(copied)
    target = bound.targets[0].target if isinstance(bound, cst.Assign) and len(bound.targets) == 1 else None
    if not isinstance(target, cst.Name):
        return None
    function, name = model.function_of(site), target.value
    statement = model.statement_of(site.node)
    place = model.place_of(statement)
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    behind = [each for each in uses if each.lineno > (statement.end_lineno or statement.lineno)]
    before = [each for each in uses if each.lineno < statement.lineno]
    if len(behind) != 1 or not isinstance(behind[0].ctx, ast.Load) or model.may_be_rebound(name):
        return None
    made = [at for at, each in enumerate(place.before) if name in _bound_plainly(each)]
    first = place.before[made[0]].lineno if made else statement.lineno
    if any(each.lineno < first for each in before):
        return None  # the copy of an earlier pass may be meant
    holder = function.parents[behind[0]]
    around = surroundings.statement_around(function, holder)
    below = (each for later in place.block[place.position + 1 :] for each in subtree(later))
    if not isinstance(holder, (ast.Call, ast.AugAssign)) or around not in below:
        return None
    taken = model.site_at(holder, around)
    filling = None if taken is None or not taken.tree.lossless else _filled_by(taken.node)
    return None if filling is None else filling._replace(bound=name)


def _bound_there(model: Model, site: Site, copied: cst.Call, there: str) -> Edit | tuple[Edit, ...] | None:
    """The binding with the tensor on the device; none is left where the name has it already."""
    target = cst.ensure_type(model.parent(copied), cst.Assign).targets[0].target
    return placing.deleted(model, site) if shape.dotted(target) == there else edits.replace(site.tree, copied, there)


def _bound_plainly(statement: ast.stmt) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {each.id for each in targets if isinstance(each, ast.Name)}


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
    while calls[-1] is not last and (following := _next(model, calls[-1])) is not None:
        calls.append(following)
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
