"""A read in each pass of a loop, `for v in losses.values(): log(v.item())`: one read before the loop takes them all."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import effects, evaluating, placing, surroundings, writes
from torchperf_lint.idioms.scripting import judged_at
from torchperf_lint.idioms.sync.host_copies import read_from_copy
from torchperf_lint.idioms.sync.passes import Passes, passes_to
from torchperf_lint.idioms.sync.walked_numbers import walked_as_numbers
from torchperf_lint.idioms.transfer.pinned_copies import rests_on_waits
from torchperf_lint.idioms.walked_twice import OF_MODULES, VIEWS, computes, walked_twice, worst
from torchperf_lint.idioms.written_helpers import ITEMS, defined
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.idioms.sync.passes import Clause
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_TITLE = "read the values of all passes at once, before the loop"
_ASSUMES = "no pass of the loop changes what a later pass reads"
_BUILTINS = ("all", "dict", "iter", "len", "list", "next", "type", "zip")
_UNCHANGING = (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.DEVICE, Kind.DTYPE, Kind.LIBRARY, Kind.MODULE, Kind.CLASS)
_PLAIN = (Kind.NUMBER, Kind.STRING, Kind.NONE)


def read_ahead_or(model: Model, read: HostRead, fix: Fix | NoFix) -> Fix | NoFix:
    """The fix of a read; where it has none, one that reads the values of its loop, or copies the tensor, before it."""
    if not isinstance(fix, NoFix) or read.unfixed is not None:
        return fix
    ahead = read_ahead(model, read.site, read.tensor, read.reader)
    if isinstance(ahead, NoFix):
        ahead = read_from_copy(model, read)
    return fix if isinstance(ahead, NoFix) else ahead


def all_read_ahead(model: Model, reads: Sequence[HostRead]) -> Fix | NoFix:
    """One fix for several reads of a statement, where each has one."""
    fixes = [read_ahead_or(model, read, NoFix.HANDED_ON) for read in reads]
    known = [fix for fix in fixes if isinstance(fix, Fix)]
    changed = edits.together(*(fix.edits for fix in known)) if known and len(known) == len(fixes) else None
    if changed is None:
        return NoFix.HANDED_ON
    return known[0]._replace(safety=worst([fix.safety for fix in known]), edits=changed)


def read_ahead(model: Model, site: Site, tensor: cst.BaseExpression, reader: str = "item") -> Fix | NoFix:
    """`x_items = iter(_items([x for ...]))` before the loop, and `next(x_items)` in the place of the read.

    `tensor` is what the site reads, by `item`, `float` or `int`.
    """
    made = model.ast_of(tensor)
    as_numbers = None if made is None else walked_as_numbers(model, site, made)
    if as_numbers is not None and as_numbers.safety is Safety.SAFE:
        return as_numbers
    one_by_one = _read_ahead(model, site, tensor, reader)
    is_safe = isinstance(one_by_one, Fix) and one_by_one.safety is Safety.SAFE
    return one_by_one if is_safe or as_numbers is None else as_numbers


def _read_ahead(model: Model, site: Site, tensor: cst.BaseExpression, reader: str) -> Fix | NoFix:
    """The values of all passes, made by a comprehension before the loop."""
    made, function, torch = model.ast_of(tensor), model.function_of(site), model.name_of("torch", site)
    found = [] if made is None else passes_to(model, site, made)
    if made is None or not found or not computes(model, function, made):
        return NoFix.FORM
    grades = [_grade(model, site, each, made) for each in found]
    if not grades or grades[0] is None:
        return NoFix.FORM
    if surroundings.is_spelled_out(model, site):
        return NoFix.FORM
    # The outermost loop that is safe; where none is, the innermost one asks least.
    safe = [each for each, grade in zip(found, grades, strict=True) if grade is Safety.SAFE]
    passes, grade = (safe[-1], Safety.SAFE) if safe else (found[0], Safety.UNSAFE)
    if _may_write(model, function, passes, made):
        return NoFix.MAY_BE_WRITTEN
    if torch is None or not site.tree.lossless or not all(map(model.keeps_builtin, _BUILTINS)):
        return NoFix.NO_ROOM
    of_pass = _text(model, passes, made)
    name = model.remember(
        ("items before the loop", passes.loop, site.start),
        lambda: surroundings.new_name(model, function, f"{_stem(made)}_items"),
    )
    dtype = model.value(tensor).dtype or ""
    if isinstance(made, ast.Call) and not dtype.startswith(("bool", "int", "uint")) and ".detach()" not in of_pass:
        of_pass += ".detach()"  # its graph is not kept until all are made
    clauses = " ".join(_clause_text(model, passes, each) for each in passes.clauses)
    number = f"next({name})"
    changed = edits.together(
        defined(model, ITEMS, torch, passes.loop),
        placing.beside(
            model,
            passes.loop,
            [f"{name} = iter({ITEMS.name}([{of_pass} {clauses}]))"],
            behind=False,
        ),
        edits.replace(site.tree, site.node, number if reader == "item" else f"{reader}({number})"),
    )
    if changed is None:
        return NoFix.NO_ROOM
    return judged_at(model, site, Fix(_TITLE, grade, changed, _ASSUMES))


def _grade(model: Model, site: Site, passes: Passes, made: ast.expr) -> Safety | None:
    """The grade of reading before the loop; None if it has not all of its data, waits itself, or runs code."""
    function = model.function_of(site)
    parts = [each for whole in (made, *passes.expressions) for each in subtree(whole)]
    read = model.ast_of(site.node)
    but = {*parts, *([] if read is None else [read])}
    walk = walked_twice(model, function, passes)
    seen = effects.of_loop_itself(model, function, passes.loop, but)._replace(lists=False, dicts=False)
    if walk is None or _touches(model, function, passes, parts, seen) or _fills_itself(model, function, parts):
        return None
    if surroundings.may_be_caught(model, site) or rests_on_waits(model) or _may_end(model, site, passes):
        return Safety.UNSAFE
    if not all(_gives_data(model, function, each) for each in parts):
        return Safety.UNSAFE
    touched = _touches(model, function, passes, parts, effects.of_loop(model, function, passes.loop, but))
    return Safety.UNSAFE if touched else walk


def _fills_itself(model: Model, function: FunctionInfo, parts: list[ast.AST]) -> bool:
    """Whether an entry is taken from a `defaultdict`, which has one more then."""
    held = (each.value for each in parts if isinstance(each, ast.Subscript))
    made = (made for each in held if isinstance(each, ast.Name) for made in model.bindings(function, each.id))
    return any(isinstance(each, ast.Call) and last_name(each.func) == "defaultdict" for each in made)


def _may_end(model: Model, site: Site, passes: Passes) -> bool:
    """Whether a pass may end the program before it comes to the site, by an error of its own."""
    ends = (each for each in subtree(passes.loop) if isinstance(each, (ast.Raise, ast.Assert)))
    return any(model.source.offset(each.lineno, each.col_offset) < site.start for each in ends)


def _touches(
    model: Model, function: FunctionInfo, passes: Passes, parts: list[ast.AST], changed: effects.Effects
) -> bool:
    """Whether what the loop changes may be something that is evaluated before it."""
    if changed.tensors or changed.attributes is None:
        return True
    named = {each.attr for each in parts if isinstance(each, ast.Attribute)}
    lists, dicts = _uses(model, function, passes, parts)
    if not named.isdisjoint(changed.attributes) or (changed.parts and named & OF_MODULES):
        return True
    return (changed.lists and lists) or (changed.dicts and dicts)


# -- texts -------------------------------------------------------------------------------------------------------------


def _clause_text(model: Model, passes: Passes, clause: Clause) -> str:
    if isinstance(clause, ast.For):
        return f"for {_text(model, passes, clause.target)} in {_text(model, passes, clause.iter)}"
    test = clause.test
    if clause.holds:
        return f"if {_text(model, passes, test)}"
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"if {_text(model, passes, test.operand)}"
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)) and len(test.ops) == 1:
        sign = "is not" if isinstance(test.ops[0], ast.Is) else "is"
        return f"if {_text(model, passes, test.left)} {sign} {_text(model, passes, test.comparators[0])}"
    plain = isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"if not {_text(model, passes, test)}" if plain else f"if not ({_text(model, passes, test)})"


def _text(model: Model, passes: Passes, node: ast.expr) -> str:
    """The source of an expression on one line, with what the names of a pass stand for."""
    if any(isinstance(each, ast.Name) and each.id in passes.names for each in subtree(node)):
        return ast.unparse(_Spelled(passes.names).visit(copy.deepcopy(node)))
    source = model.source
    if _is_in_text(model.place_of(passes.loop).function, node):
        return ast.unparse(node)  # before Python 3.12, its position is not that in the file
    start = source.offset(node.lineno, node.col_offset)
    text = source.utf8[start : source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)].decode()
    return ast.unparse(node) if "\n" in text or "\r" in text else text


def _is_in_text(function: FunctionInfo, node: ast.AST) -> bool:
    """Whether an expression stands in an f-string."""
    around: ast.AST | None = node
    while around is not None and not isinstance(around, (ast.stmt, ast.JoinedStr)):
        around = function.parents.get(around)
    return isinstance(around, ast.JoinedStr)


class _Spelled(ast.NodeTransformer):
    """Puts what names stand for in their places."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        made = self._names.get(node.id)
        return node if made is None else self.visit(copy.deepcopy(made))


def _stem(node: ast.expr) -> str:
    """A name for what is read: `grad` of `p.grad.norm(2)`, `coords` of `coords[i, j]`."""
    while not isinstance(node, (ast.Name, ast.Attribute)):
        inner = _inner(node)
        if inner is None:
            return "value"
        node = inner
    return (node.id if isinstance(node, ast.Name) else node.attr).lstrip("_") or "value"


def _inner(node: ast.expr) -> ast.expr | None:
    """What an expression computes from, first of all."""
    if isinstance(node, ast.Call):
        of_data = isinstance(node.func, ast.Attribute) and not _is_library(node.func.value)
        return node.func.value if of_data and isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return node.value
    if isinstance(node, (ast.Compare, ast.BinOp)):
        return node.left
    return node.operand if isinstance(node, ast.UnaryOp) else None


def _is_library(node: ast.expr) -> bool:
    return (dotted(node) or "").partition(".")[0] in ("torch", "F")


# -- what the passes change --------------------------------------------------------------------------------------------


def _may_write(model: Model, function: FunctionInfo, passes: Passes, made: ast.expr) -> bool:
    """Whether a pass is seen to write to a tensor that is read, or hands it to what may do so."""
    parts = [each for whole in (made, *passes.expressions) for each in subtree(whole)]
    data = [each for each in parts if isinstance(each, (ast.Name, ast.Attribute)) and isinstance(each.ctx, ast.Load)]
    keys = _keys(passes)
    code = [each for each in subtree(passes.loop) if isinstance(each, (ast.Call, ast.AugAssign, ast.Assign))]
    return writes.may_write(model, function, data, [each for each in code if not _spares(model, function, each, keys)])


def _keys(passes: Passes) -> set[str]:
    """The names for keys and positions: the first ones that `items()` and `enumerate(...)` give."""
    found: set[str] = set()
    for each in passes.clauses:
        if (
            not isinstance(each, ast.For)
            or not isinstance(each.target, ast.Tuple)
            or not isinstance(each.iter, ast.Call)
        ):
            continue
        first = each.target.elts[0]
        if isinstance(first, ast.Name) and last_name(each.iter.func) in ("items", "enumerate", "named_parameters"):
            found.add(first.id)
    return found


def _spares(model: Model, function: FunctionInfo, node: ast.AST, keys: set[str]) -> bool:
    """Whether a call takes keys and numbers alone, or a statement sets an entry of a list: that changes no tensor."""
    if isinstance(node, ast.Call):
        given = [*node.args, *(each.value for each in node.keywords)]
        others = (each for each in given if not (isinstance(each, ast.Name) and each.id in keys))
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
        return not is_method and all(model.value_in(function, each).kind in _PLAIN for each in others)
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    return isinstance(target, ast.Subscript) and model.value_in(function, target.value).kind is Kind.CONTAINER


def _uses(model: Model, function: FunctionInfo, passes: Passes, parts: list[ast.AST]) -> tuple[bool, bool]:
    """Whether what is evaluated looks into lists, and into dicts or sets, which other code may hold as well."""
    views = {each.func.value for each in parts if isinstance(each, ast.Call) and _is_view(each)}  # type: ignore[attr-defined]
    dicts = any(not (isinstance(each, ast.Call) or _is_own(model, function, each)) for each in views)
    walked = {name for each in passes.clauses if isinstance(each, ast.For) for name in _walked_names(each.iter)}
    known, targets = views | walked, passes.targets
    looks = any(
        not _is_own(model, function, each)
        for each in (*walked, *(path for path in _data(function, parts) if path not in known))
        if _may_hold(model, function, each, targets)
    )
    return looks, looks or dicts


def _data(function: FunctionInfo, parts: list[ast.AST]) -> Iterator[ast.expr]:
    """The names and longest paths among the parts, without those of functions and methods that are called."""
    for each in parts:
        if not isinstance(each, (ast.Name, ast.Attribute)) or not isinstance(each.ctx, ast.Load):
            continue
        parent = function.parents.get(each)
        if not _is_called(function, each) and (not isinstance(parent, ast.Attribute) or _is_called(function, parent)):
            yield each


def _is_called(function: FunctionInfo, node: ast.expr) -> bool:
    called = function.parents.get(node)
    return isinstance(called, ast.Call) and called.func is node


def _may_hold(model: Model, function: FunctionInfo, node: ast.expr, targets: set[str]) -> bool:
    """Whether a value may be a list, a dict or another object whose content changes, and no tensor or number."""
    value = model.value_in(function, node)
    if isinstance(node, ast.Name) and node.id in targets:
        return value.kind is Kind.CONTAINER
    is_gradient = isinstance(node, ast.Attribute) and node.attr == "grad"
    return not (value.is_tensor or is_gradient or value.kind in _UNCHANGING)


def _is_view(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in VIEWS


def _walked_names(node: ast.expr) -> list[ast.expr]:
    """What an iterable walks, apart from views and ranges: `rows` and `x` of `enumerate(zip(rows, x))`."""
    if isinstance(node, ast.Call):
        is_view = isinstance(node.func, ast.Attribute) or last_name(node.func) == "range"
        return [] if is_view else [part for each in node.args for part in _walked_names(each)]
    return [] if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _is_own(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether it is a list or dict of this call alone: made by the function, or its `**kwargs`, and only looked at."""
    if effects.is_fresh(model, function, node):
        return True
    given = function.arguments.kwarg if function.arguments is not None else None
    if given is None or not isinstance(node, ast.Name) or node.id != given.arg:
        return False
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == node.id]
    return all(isinstance(function.parents[each], (ast.Attribute, ast.Subscript)) for each in uses)


def _gives_data(model: Model, function: FunctionInfo, node: ast.AST) -> bool:
    """Whether a part of an expression is no attribute or entry that code of the project may give."""
    if isinstance(node, ast.Attribute):
        called = function.parents.get(node)
        is_method = isinstance(called, ast.Call) and called.func is node
        of_library = model.value_in(function, node).kind is Kind.LIBRARY
        return is_method or of_library or node.attr == "grad" or evaluating.is_kept(model, function, node)
    if isinstance(node, ast.Subscript):
        held = model.value_in(function, node.value)
        return held.kind in (Kind.TENSOR, Kind.PYTREE, Kind.CONTAINER) and held.cls is None and not held.among
    return True
