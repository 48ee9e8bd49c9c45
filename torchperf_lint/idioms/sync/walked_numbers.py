"""`for t in ids: if t.item() == end: ...`: a loop that does nothing with elements but read them walks numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

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
_ASSUMES = (
    "`{name}` is a tensor of one dimension that nothing writes to while the loop runs, and what its elements are "
    "compared with are integers"
)
_BEFORE_READ = frozenset({"detach", "cpu"})
_CASTS = frozenset({"builtins.int", "builtins.float"})
_ASKS = (ast.If, ast.While, ast.IfExp, ast.Assert)
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class _Read(NamedTuple):
    """An expression that a number replaces; `is_sure` says that the result is the same whatever it meets."""

    whole: ast.expr
    is_sure: bool = True


def walked_as_numbers(model: Model, site: Site, read: ast.expr) -> Fix | None:
    """`for t in ids.tolist()`, and `t` for `t.item()`, where `read` is an element or compares one; None if unclear."""
    function = model.function_of(site)
    element = _element(function, read)
    walk = None if element is None else walk_that_binds(function, element, element.id)
    if walk is None or element is None:
        return None
    tensor, before = walked(model, walk.target, walk.iter, element.id), around(function, walk)
    if tensor is None or before is None or not is_left_alone(model, function, tensor, before):
        return None
    value = model.value_in(function, tensor)
    loads = loads_in(function, element, before[1]) or _cast_at_first(walk, element.id)
    is_tensor = value.kind is Kind.TENSOR or (value.origin is not None and surroundings.may_be_tensor(value))
    if not loads or not is_tensor:
        return None
    reads = [_read(model, function, each, is_whole=value.dtype == "int64") for each in loads]
    wholes = [each.whole for each in reads if each is not None]
    if len(wholes) != len(reads):
        return None
    replaced = [each for each in wholes if not isinstance(each, ast.Name)]
    changed = walk_instead(model, (tensor, before[0]), ".tolist()", replaced, element.id)
    if changed is None:
        return None
    name = ast.unparse(tensor)
    is_kept = is_never_written(model, site, tensor, before, lambda use: use is tensor)
    is_sure = value.is_tensor and value.vector is True and all(each.is_sure for each in reads if each is not None)
    is_safe = is_kept and is_sure
    if isinstance(walk, ast.comprehension) and not is_safe:
        return None  # a display makes the tensors first, and reads them as they are then
    safety = Safety.SAFE if is_safe else Safety.UNSAFE
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


def _read(model: Model, function: FunctionInfo, load: ast.Name, *, is_whole: bool) -> _Read | None:
    """What a number replaces: `t.item()`, or the name alone in `int(t)` and in a test that compares integers."""
    whole: ast.expr = load
    while isinstance(attribute := function.parents.get(whole), ast.Attribute):
        call = function.parents.get(attribute)
        if not isinstance(call, ast.Call) or call.func is not attribute or call.args or call.keywords:
            return None
        if attribute.attr == "item":
            return _Read(call)
        if attribute.attr not in _BEFORE_READ:
            return None
        whole = call
    parent = function.parents.get(whole)
    if isinstance(parent, ast.Call) and len(parent.args) == 1 and not parent.keywords:
        return _Read(whole) if model.value_in(function, parent.func).ref in _CASTS else None
    if not isinstance(parent, ast.Compare) or not is_whole or not _is_asked(function, parent):
        return None
    if len(parent.ops) != 1 or not isinstance(parent.ops[0], _ORDERS):
        return None
    other = parent.comparators[0] if parent.left is whole else parent.left
    number = model.value_in(function, other)
    if number.kind is Kind.NUMBER:
        is_int = type(number.constant) is int or number.dtype == "int"
        return _Read(whole, is_int) if is_int or number.dtype is None else None
    return _Read(whole, False) if number.kind is Kind.UNKNOWN and not number.device.on_accelerator else None


def _is_asked(function: FunctionInfo, node: ast.expr) -> bool:
    """Whether nothing but the truth of an expression matters: a test, perhaps joined with others or turned round."""
    parent = function.parents.get(node)
    while isinstance(parent, ast.BoolOp) or (isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)):
        node, parent = parent, function.parents.get(parent)
    return (isinstance(parent, _ASKS) and parent.test is node) or (
        isinstance(parent, ast.comprehension) and node in parent.ifs
    )
