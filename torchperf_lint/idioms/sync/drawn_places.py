"""`rows = torch.randint(n, (k,))` on the host, and `a[rows], b[rows]` on the device: the places are copied once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.idioms.transfer.uploads import makes_on_device, pinned, without_waiting
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "copy the indices to the device where they are made, without waiting"
_MAKERS = frozenset({"torch.randint", "torch.randperm", "torch.arange"})
_PLAIN = frozenset("low high size n start end step dtype generator requires_grad".split())
_RECKONS = frozenset(f"torch.{name}" for name in "fmod remainder div floor_divide add sub mul".split())
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_DEEPEST = 8


class _Places(NamedTuple):
    """The names of places in a function, all reckoned from what one call makes."""

    names: set[str]
    maker: ast.Call


def copied_once(model: Model, indexed: Indexed, part: ast.expr, owner: str) -> Fix | NoFix:
    """`torch.randint(..., pin_memory=...).to(a.device, non_blocking=True)`, if the places serve as nothing else."""
    function = indexed.function
    if may_be_scripted(model, function) or model.may_be_traced:
        return NoFix.SCRIPTED
    if makes_on_device(model):
        return NoFix.NOT_PINNED
    root = owner.partition(".")[0]
    if root not in function.parameter_names or function.bound_names.count(root) != 1:
        return NoFix.DEVICE_NOT_AT_HAND
    found = _followed(model, function, part)
    if found is None:
        return NoFix.VARIES
    if _may_be_set_behind(function, owner, found.maker, part):
        return NoFix.DEVICE_NOT_AT_HAND
    if not _are_only_places(model, function, found):
        return NoFix.USED_OTHERWISE
    assigned = (each for each in model.statements if isinstance(each, ast.Assign) and _names_places(each, found))
    statement = next((each for each in assigned if found.maker in subtree(each)), None)
    site = None if statement is None else model.site_at(found.maker, statement)
    torch = None if site is None else model.name_of("torch", site)
    if site is None or torch is None or not site.tree.lossless:
        return NoFix.NO_ROOM
    # One copy does for all tensors that are indexed.
    owner = model.remember(("indexed by places of", found.maker), lambda: owner)
    end = site.tree.span(site.node)[1]
    changed = edits.together(
        edits.add_argument(site.tree, site.node, pinned(torch)),
        Edit(end, end, f".to({owner}.device, {without_waiting(model, torch)})".encode()),
    )
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, Safety.UNSAFE, changed)


def _may_be_set_behind(function: FunctionInfo, owner: str, maker: ast.Call, part: ast.expr) -> bool:
    """Whether the tensor may be set only between the place where the indices are made and the one where they serve."""
    root = owner.partition(".")[0]
    for node in function.nodes:
        if not maker.lineno <= getattr(node, "lineno", 0) <= part.lineno:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_around(dotted(node), owner):
                return True
        elif isinstance(node, ast.Call) and node is not maker:
            called = dotted(node.func) or ""
            is_own = called.startswith(f"{root}.") and not called.startswith(f"{owner}.")
            if is_own or any(_is_around(dotted(each), owner) for each in node.args):
                return True
    return False


def _is_around(path: str | None, owner: str) -> bool:
    """Whether what lies at the path is the tensor, or an object that holds it."""
    return path is not None and f"{owner}.".startswith(f"{path}.")


def _followed(model: Model, function: FunctionInfo, part: ast.expr) -> _Places | None:
    """The call that makes the places of an index, and all names that the function reckons from it."""
    maker, names = _maker(model, function, part, 0), set[str]()
    if maker is None:
        return None
    assigned = [
        (node.targets[0].id, node.value)
        for node in function.nodes
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ]
    for name, value in assigned:
        if model.bound_once(function, name) and _maker(model, function, value, 0) is maker:
            names.add(name)
    return _Places(names, maker)


def _maker(model: Model, function: FunctionInfo, node: ast.expr, depth: int) -> ast.Call | None:
    """The one call on the host that makes what the expression reckons with integers; None if it is anything else."""
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Name):
        made = model.only_binding(function, node.id)
        return None if made is None else _maker(model, function, made, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
        sides = [each for each in (node.left, node.right) if not _is_number(model, function, each)]
        return _maker(model, function, sides[0], depth + 1) if len(sides) == 1 else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _maker(model, function, node.value, depth + 1)
    if not isinstance(node, ast.Call):
        return None
    ref = model.value_in(function, node.func).ref or ""
    keywords = {each.arg: each.value for each in node.keywords}
    if ref in _MAKERS:
        is_whole = (model.value_in(function, node).dtype or "").startswith("int")
        return node if is_whole and keywords.keys() <= _PLAIN else None
    if ref not in _RECKONS or not node.args or keywords.keys() - {"rounding_mode"}:
        return None
    if ref == "torch.div" and not isinstance(keywords.get("rounding_mode"), ast.Constant):
        return None
    numbers = all(_is_number(model, function, each) for each in node.args[1:])
    return _maker(model, function, node.args[0], depth + 1) if numbers else None


def _is_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether nothing speaks against a number of the host."""
    value = model.value_in(function, node)
    return value.kind is Kind.NUMBER or (value.kind is Kind.UNKNOWN and not value.device.on_accelerator)


def _are_only_places(model: Model, function: FunctionInfo, places: _Places) -> bool:
    """Whether the names are read in indices of tensors on the device and where they are reckoned, and nowhere else."""
    for node in function.parents:
        if not isinstance(node, ast.Name) or node.id not in places.names or isinstance(node.ctx, ast.Store):
            continue
        inner: ast.AST = node
        parent = function.parents[inner]
        while _keeps_places(parent, inner):
            if isinstance(parent, ast.Call) and model.value_in(function, parent.func).ref not in _RECKONS:
                return False
            inner, parent = parent, function.parents[parent]
        if isinstance(parent, ast.Subscript) and inner is parent.slice:
            if not model.value_in(function, parent.value).device.on_accelerator:
                return False
        elif not (isinstance(parent, ast.Assign) and _names_places(parent, places)):
            return False
    return True


def _keeps_places(parent: ast.AST, inner: ast.AST) -> bool:
    """Whether what the parent gives are places, too, if it is no call of an unknown function."""
    if isinstance(parent, ast.Subscript):
        return inner is parent.value and isinstance(parent.slice, ast.Slice)
    return isinstance(parent, (ast.BinOp, ast.Tuple)) or (isinstance(parent, ast.Call) and inner in parent.args)


def _names_places(statement: ast.Assign, places: _Places) -> bool:
    target = statement.targets[0]
    return len(statement.targets) == 1 and isinstance(target, ast.Name) and target.id in places.names
