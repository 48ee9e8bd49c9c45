"""`for t in ids: if t.item() == end: ...`: a loop that does nothing with elements but read them walks numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.sync.walks import (
    around,
    is_left_alone,
    is_never_written,
    loads_in,
    walk_instead,
    walk_that_binds,
    walked,
)
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.walks import Walk
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "read all elements at once, and walk the numbers"
_ASSUMES = "`{name}` is a tensor, and nothing writes to it while the loop runs"
_BEFORE_READ = frozenset({"detach", "cpu"})
_CASTS = frozenset({"builtins.int", "builtins.float"})
_ASKS = (ast.If, ast.While, ast.IfExp, ast.BoolOp, ast.Assert)
_WHOLE = ("int", "uint", "bool")


def walked_as_numbers(model: Model, site: Site, read: ast.expr) -> Fix | None:
    """`for t in ids.tolist()`, and `t` for `t.item()`, where `read` is an element or compares one; None if unclear."""
    function = model.function_of(site)
    element = _element(function, read)
    walk = None if element is None else walk_that_binds(function, element, element.id)
    if walk is None or element is None:
        return None
    tensor, before = walked(walk.target, walk.iter, element.id), around(function, walk)
    if tensor is None or before is None or not is_left_alone(model, function, tensor, before):
        return None
    value = model.value_in(function, tensor)
    loads = loads_in(function, element, before[1]) or _cast_at_first(walk, element.id)
    is_tensor = value.kind is Kind.TENSOR or (value.origin is not None and surroundings.may_be_tensor(value))
    if not loads or not is_tensor:
        return None
    reads = [_read(model, function, each, (value.dtype or "").startswith(_WHOLE)) for each in loads]
    wholes = [each for each in reads if each is not None]
    if len(wholes) != len(reads):
        return None
    flat = "" if value.vector else ".flatten()"  # each row has one element, or none is read
    changed = walk_instead(model, (tensor, before[0]), f"{flat}.tolist()", wholes, element.id)
    if changed is None:
        return None
    name = ast.unparse(tensor)
    is_kept = is_never_written(model, site, tensor, before, lambda use: use is tensor)
    safety = Safety.SAFE if is_kept and value.kind is Kind.TENSOR else Safety.UNSAFE
    fix = judged(model, function, Fix(_TITLE, safety, changed, _ASSUMES.format(name=name)))
    return fix if isinstance(fix, Fix) else None


def _cast_at_first(walk: Walk, name: str) -> list[ast.Name]:
    """The element where the first statement makes a number of it, under the same name: `t = int(t)`."""
    first = walk.body[0] if isinstance(walk, ast.For) else None
    if not isinstance(walk, ast.For) or not isinstance(first, ast.Assign) or not isinstance(first.value, ast.Call):
        return []
    stores = [each for part in walk.body for each in subtree(part) if isinstance(each, ast.Name) and each.id == name]
    stores = [each for each in stores if not isinstance(each.ctx, ast.Load)]
    given = first.value.args
    is_cast = len(given) == 1 and isinstance(given[0], ast.Name) and given[0].id == name
    return [given[0]] if is_cast and stores == first.targets and isinstance(given[0], ast.Name) else []


def _element(function: FunctionInfo, read: ast.expr) -> ast.Name | None:
    """`t` of `t`, and of `t == end`."""
    if isinstance(read, ast.Compare):
        named = [each for each in (read.left, *read.comparators) if isinstance(each, ast.Name)]
        return next((each for each in named if walk_that_binds(function, each, each.id) is not None), None)
    return read if isinstance(read, ast.Name) else None


def _read(model: Model, function: FunctionInfo, load: ast.Name, is_whole: bool) -> ast.expr | None:
    """What a number replaces: `t.item()`, or the name alone in `int(t)` and in a test that compares integers."""
    whole: ast.expr = load
    while isinstance(attribute := function.parents.get(whole), ast.Attribute):
        call = function.parents.get(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute or call.args or call.keywords:
            return None
        if attribute.attr == "item":
            return call
        if attribute.attr not in _BEFORE_READ:
            return None
        whole = call
    parent = function.parents.get(whole)
    if isinstance(parent, ast.Call) and len(parent.args) == 1 and not parent.keywords:
        return whole if model.value_in(function, parent.func).ref in _CASTS else None
    if isinstance(parent, ast.Compare) and is_whole and isinstance(function.parents.get(parent), _ASKS):
        return whole
    return None
