"""`for x, n in zip(xs, lengths): x[:n]`: the lengths of all passes are read at once, before the loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings, writes
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.sync.sized_once import is_size
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name, names_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

    _Walk = ast.For | ast.comprehension

_TITLE = "read all of them at once, before the loop"
_ASSUMES = "`{name}` is a vector of int64 before the loop, and nothing writes to it or binds it while the loop runs"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_DISPLAYS = (*_COMPREHENSIONS, ast.GeneratorExp)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_PASSES_ON = (
    *(ast.Call, ast.keyword, ast.Starred, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp),
    *(ast.Attribute, ast.Subscript),
)
_ARITHMETIC = (ast.BinOp, ast.UnaryOp)


def read_before_walk(model: Model, place: Costly) -> Fix | NoFix:
    """`lengths.tolist()` for `lengths` where a loop walks it, or `numbers[i]` for `lengths[i]` where it counts."""
    function = model.function_of(place.site)
    fixes = [
        fix
        for node in _of_device(model, function, place)
        if (fix := _by_item(model, function, node) or _by_index(model, function, node)) is not None
    ]
    return judged(model, function, fixes[0]) if len(fixes) == 1 else NoFix.INDEX_FROM_DEVICE


def _of_device(model: Model, function: FunctionInfo, place: Costly) -> list[ast.expr]:
    """The parts of an index or a size that are read: `n` and `offsets[i]` of `n + offsets[i]`."""
    whole = model.ast_of(place.site.node)
    found = next((each for each in subtree(whole) if ast.unparse(each) == place.part), None) if whole else None
    leaves = [] if not isinstance(found, ast.expr) else list(_leaves(found))
    return [each for each in leaves if model.value_in(function, each).device.on_accelerator]


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, _ARITHMETIC):
        for each in (node.left, node.right) if isinstance(node, ast.BinOp) else (node.operand,):
            yield from _leaves(each)
    else:
        yield node


# -- the items of a walk --------------------------------------------------------------------------------------------


def _by_item(model: Model, function: FunctionInfo, node: ast.expr) -> Fix | None:
    """Walk a list of numbers in the place of the tensor, if each item is a size or a bound wherever it is used."""
    walk = _walk_that_binds(function, node, node.id) if isinstance(node, ast.Name) else None
    if walk is None or not isinstance(node, ast.Name):
        return None
    walked = _walked(walk.target, walk.iter, node.id)
    around = _around(function, walk)
    if walked is None or around is None or not _holds_numbers(model, function, walked, around):
        return None
    names = (each for each in function.nodes if isinstance(each, ast.Name) and each.id == node.id)
    scope = _scope(function, node)
    uses = [each for each in names if _scope(function, each) is scope]
    loads = [each for each in uses if isinstance(each.ctx, ast.Load)]
    inside = set(_inside(around))
    if len(uses) != len(loads) + 1 or not all(each in inside and _is_number(model, function, each) for each in loads):
        return None
    at = model.site_at(walked, around[0])
    edit = None if at is None else edits.replace(at.tree, at.node, f"{edits.postfix(at.tree, at.node)}.tolist()")
    if edit is None:
        return None
    return Fix(_TITLE, Safety.UNSAFE, (edit,), _ASSUMES.format(name=ast.unparse(walked)))


def _scope(function: FunctionInfo, node: ast.Name) -> ast.AST:
    """The display that binds a name as the name of its walk, or the function."""
    below: ast.AST = node
    first = None
    while below is not function.node:
        above = function.parents[below]
        if isinstance(above, ast.comprehension):
            first = above if below is above.iter else None  # the first walk's tensor is evaluated outside
        elif isinstance(above, _DISPLAYS) and above.generators[0] is not first and _binds(above, node.id):
            return above
        below = above
    return function.node


def _binds(display: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, name: str) -> bool:
    return any(name in names_in(each.target) for each in display.generators)


def _walked(target: ast.expr, walked: ast.expr, name: str) -> ast.expr | None:
    """What a walk takes a name from: `lengths` of `for i, (x, n) in enumerate(zip(xs, lengths))`."""
    if isinstance(target, ast.Name):
        return walked if target.id == name and dotted(walked) is not None else None
    called = last_name(walked.func) if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Name) else None
    if not isinstance(walked, ast.Call) or not isinstance(target, ast.Tuple) or walked.keywords:
        return None
    if called == "enumerate" and len(target.elts) == 2 and walked.args:
        return _walked(target.elts[1], walked.args[0], name)
    if called == "zip" and len(walked.args) == len(target.elts):
        pairs = zip(target.elts, walked.args, strict=True)
        return next((found for each, given in pairs if (found := _walked(each, given, name)) is not None), None)
    return None


def _is_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a use is a size, a bound, or arithmetic for one: there a number is what an element of a tensor is."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.BinOp):
        other = model.value_in(function, parent.right if parent.left is node else parent.left)
        is_whole = (other.kind is Kind.NUMBER or other.is_tensor) and (other.dtype or "").startswith("int")
        return is_whole and isinstance(parent.op, _WHOLE) and _is_number(model, function, parent)
    if isinstance(parent, ast.UnaryOp):
        return _is_number(model, function, parent)
    return is_size(model, function, node)


# -- the elements of a count ----------------------------------------------------------------------------------------


def _by_index(model: Model, function: FunctionInfo, node: ast.expr) -> Fix | None:
    """`lengths_numbers = lengths.tolist()` before the loop, and `lengths_numbers[i]` for `lengths[i]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Name) or dotted(node.value) is None:
        return None
    walk = _walk_that_binds(function, node, node.slice.id)
    around = None if walk is None else _around(function, walk)
    if around is None or not _holds_numbers(model, function, node.value, around):
        return None
    statement, _ = around
    if not _is_number(model, function, node) or model.value_in(function, node.slice).dtype != "int":
        return None
    name = model.remember(
        ("bounds before the loop", statement, ast.unparse(node.value)),
        lambda: surroundings.new_name(model, function, f"{last_name(node.value)}_numbers"),
    )
    at = model.site_at(node, _statement(function, node))
    if at is None:
        return None
    changed = edits.together(
        placing.beside(model, statement, [f"{name} = {ast.unparse(node.value)}.tolist()"], behind=False),
        edits.replace(at.tree, at.node, f"{name}[{node.slice.id}]"),
    )
    if changed is None:
        return None
    return Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES.format(name=ast.unparse(node.value)))


# -- both -----------------------------------------------------------------------------------------------------------


def _walk_that_binds(function: FunctionInfo, node: ast.expr, name: str) -> _Walk | None:
    """The innermost loop or comprehension around a node that binds the name, and that alone does so."""
    around: ast.AST | None = function.parents.get(node)
    while around is not None and around is not function.node:
        if isinstance(around, (ast.Lambda, ast.GeneratorExp)):
            return None
        walks = around.generators if isinstance(around, _COMPREHENSIONS) else [around]
        for walk in walks:
            if isinstance(walk, (ast.For, ast.comprehension)) and name in names_in(walk.target):
                return walk
        around = function.parents.get(around)
    return None


def _around(function: FunctionInfo, walk: _Walk) -> tuple[ast.stmt, ast.AST] | None:
    """The statement before which the numbers are read, and what repeats: a loop, or the first walk of a display."""
    if isinstance(walk, ast.For):
        return walk, walk
    display = function.parents.get(walk)
    if not isinstance(display, _COMPREHENSIONS) or display.generators[0] is not walk or walk.is_async:
        return None
    statement = _statement(function, display)
    above = function.parents[display]
    while isinstance(above, _PASSES_ON):  # not later, perhaps, or in each pass of another one
        above = function.parents[above]
    binds = any(isinstance(each, ast.NamedExpr) for each in subtree(statement))
    return (statement, display) if above is statement and isinstance(statement, _SIMPLE) and not binds else None


def _statement(function: FunctionInfo, node: ast.AST) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = function.parents[node]
    return node


def _inside(around: tuple[ast.stmt, ast.AST]) -> list[ast.AST]:
    return subtree(around[1])


def _holds_numbers(model: Model, function: FunctionInfo, node: ast.expr, around: tuple[ast.stmt, ast.AST]) -> bool:
    """Whether it is a tensor of the device that the loop neither binds nor writes to."""
    value, path = model.value_in(function, node), dotted(node)
    if path is None or not value.holds_tensors or value.mixed or not value.device.on_accelerator:
        return False
    names = (each for each in _inside(around) if isinstance(each, (ast.Name, ast.Attribute)))
    stored = {dotted(each) for each in names if isinstance(each.ctx, ast.Store)}
    if not stored.isdisjoint({path, path.partition(".")[0]}) or _may_be_none(model, function, path):
        return False
    body = around[0].body if isinstance(around[0], ast.For) and around[0] is around[1] else [around[0]]
    return not writes.may_write(model, function, [node], body)


def _may_be_none(model: Model, function: FunctionInfo, path: str) -> bool:
    """Whether the function asks if it is None or binds it to that, or it is a parameter that is so by default."""
    bound = model.all_bindings(function, path)
    if any(isinstance(each, ast.Constant) for each in bound):
        return True
    default = function.defaults.get(path)
    if isinstance(default, ast.Constant) and default.value is None:
        return True
    asked = (each for each in function.nodes if isinstance(each, ast.Compare))
    return any(dotted(each.left) == path and isinstance(each.ops[0], (ast.Is, ast.IsNot)) for each in asked)
