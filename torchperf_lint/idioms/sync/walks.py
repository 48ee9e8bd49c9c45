"""Loops and comprehensions that walk a tensor: which one binds a name, what it takes the name from, and where."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from torchperf_lint.idioms import effects, writes
from torchperf_lint.idioms.surroundings import is_spelled_out, statement_around
from torchperf_lint.idioms.sync.element_loops import is_own
from torchperf_lint.model.handles import dotted, last_name, names_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

Walk: TypeAlias = ast.For | ast.comprehension

_SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.GeneratorExp)
_ASK_FOR_NAMES = frozenset({"vars", "locals", "globals", "eval", "exec"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_DISPLAYS = (*_COMPREHENSIONS, ast.GeneratorExp)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_PASSES_ON = (
    *(ast.Call, ast.keyword, ast.Starred, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp),
    *(ast.Attribute, ast.Subscript),
)


def walk_that_binds(function: FunctionInfo, node: ast.expr, name: str) -> Walk | None:
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


def walked(model: Model, target: ast.expr, iterable: ast.expr, name: str) -> ast.expr | None:
    """What a walk takes a name from: `lengths` of `for i, (x, n) in enumerate(zip(xs, lengths))`."""
    if isinstance(target, ast.Name):
        return iterable if target.id == name and dotted(iterable) is not None else None
    called = (
        last_name(iterable.func) if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) else None
    )
    if not isinstance(iterable, ast.Call) or not isinstance(target, ast.Tuple) or iterable.keywords:
        return None
    if called is None or not model.keeps_builtin(called):
        return None
    if called == "enumerate" and len(target.elts) == 2 and iterable.args:
        return walked(model, target.elts[1], iterable.args[0], name)
    if called == "zip" and len(iterable.args) == len(target.elts):
        pairs = zip(target.elts, iterable.args, strict=True)
        return next((found for each, given in pairs if (found := walked(model, each, given, name)) is not None), None)
    return None


def around(function: FunctionInfo, walk: Walk) -> tuple[ast.stmt, ast.AST] | None:
    """The statement before which all items can be read, and what repeats: a loop, or the first walk of a display."""
    above: ast.AST | None = walk
    while above is not None and above is not function.node:
        if isinstance(above, ast.ClassDef):
            return None  # the class keeps the names
        above = function.parents.get(above)
    if isinstance(walk, ast.For):
        return walk, walk
    display = function.parents.get(walk)
    if not isinstance(display, _COMPREHENSIONS) or display.generators[0] is not walk or walk.is_async:
        return None
    statement = statement_around(function, display)
    above = function.parents[display]
    while isinstance(above, _PASSES_ON):  # not later, perhaps, or in each pass of another one
        above = function.parents[above]
    binds = any(isinstance(each, ast.NamedExpr) for each in subtree(statement))
    return (statement, display) if above is statement and isinstance(statement, _SIMPLE) and not binds else None


def loads_in(function: FunctionInfo, name: ast.Name, repeated: ast.AST) -> list[ast.Name] | None:
    """The reads of a walk's name, where the walk alone binds it, and all others get what another walk binds.

    None where code may see the name that is not looked at here: a lambda, a nested function, `global`, `locals()`.
    """
    inside = subtree(repeated)
    if any(isinstance(each, _SCOPES) for each in inside) or _is_seen_elsewhere(function, name.id):
        return None
    scope, within = _scope(function, name), set(inside)
    same = (each for each in function.nodes if isinstance(each, ast.Name) and each.id == name.id)
    uses = [each for each in same if _scope(function, each) is scope]
    own = [each for each in uses if each in within]
    loads = [each for each in own if isinstance(each.ctx, ast.Load)]
    others = [each for each in uses if each not in within and isinstance(each.ctx, ast.Load)]
    is_bound_elsewhere = all(_is_in_another_walk(function, each, repeated) for each in others)
    return loads if len(own) == len(loads) + 1 and is_bound_elsewhere else None


def _is_seen_elsewhere(function: FunctionInfo, name: str) -> bool:
    """Whether the name is one of another scope, or the function asks for all of its names."""
    for node in function.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
        if isinstance(node, ast.Name) and node.id in _ASK_FOR_NAMES:
            return True
    return False


def _is_in_another_walk(function: FunctionInfo, load: ast.Name, repeated: ast.AST) -> bool:
    """Whether a read gets what the body of another walk binds, which the one that `repeated` is does not stand in."""
    walk = walk_that_binds(function, load, load.id)
    if not isinstance(walk, ast.For):
        return isinstance(walk, ast.comprehension) and load not in set(subtree(walk.iter))
    body = {part for statement in walk.body for part in subtree(statement)}
    return load in body and repeated not in body


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


def is_left_alone(model: Model, function: FunctionInfo, node: ast.expr, before: tuple[ast.stmt, ast.AST]) -> bool:
    """Whether it is a tensor of the device that what repeats does not bind, nor seems to write to."""
    value, path = model.value_in(function, node), dotted(node)
    if path is None or not value.holds_tensors or value.mixed or not value.device.on_accelerator:
        return False
    names = (each for each in subtree(before[1]) if isinstance(each, (ast.Name, ast.Attribute)))
    stored = {dotted(each) for each in names if isinstance(each.ctx, ast.Store)}
    if not stored.isdisjoint({path, path.partition(".")[0]}) or _may_be_none(model, function, path):
        return False
    written = (each for part in _repeated(before) for each in writes.writes_of(part))
    return all(dotted(part) != path for each in written for part in subtree(each) if isinstance(part, ast.expr))


def walk_instead(
    model: Model, walk: tuple[ast.expr, ast.stmt], called: str, wholes: list[ast.expr], name: str
) -> tuple[Edit, ...] | None:
    """Edits for a walk, and its statement, that go over `x<called>` and have the name in the place of these parts."""
    function = model.place_of(walk[1]).function
    walked_at = model.site_at(*walk)
    places = [model.site_at(each, statement_around(function, each)) for each in wholes]
    if walked_at is None or any(each is None or is_spelled_out(model, each) for each in places):
        return None
    return edits.together(
        edits.replace(walked_at.tree, walked_at.node, f"{edits.postfix(walked_at.tree, walked_at.node)}{called}"),
        *(edits.replace(each.tree, each.node, name) for each in places if each is not None),
    )


def is_never_written(
    model: Model,
    site: Site,
    tensor: ast.expr,
    before: tuple[ast.stmt, ast.AST],
    only_reads: Callable[[ast.Name], bool],
) -> bool:
    """Whether nothing that repeats writes to the tensor, in the project's other functions either.

    `only_reads` tells of the function's own uses of it that are known to do no more.
    """
    function = model.function_of(site)
    is_alone = is_own(model, site, ast.unparse(tensor), only_reads)
    is_alone = is_alone or not effects.of_loop(model, function, before[0]).tensors
    return is_alone and not may_be_written(model, function, tensor, before)


def may_be_written(model: Model, function: FunctionInfo, node: ast.expr, before: tuple[ast.stmt, ast.AST]) -> bool:
    """Whether what repeats may write to the tensor, also by another name or in a function that is not known."""
    return writes.may_write(model, function, [node], _repeated(before))


def _repeated(before: tuple[ast.stmt, ast.AST]) -> list[ast.stmt]:
    return before[0].body if isinstance(before[0], ast.For) and before[0] is before[1] else [before[0]]


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
