"""A progress bar that shows a number of the device in every step: shown now and then, it waits for it no more often."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.idioms import effects, placing, surroundings
from torchperf_lint.knowledge.containers import CHANGE, CHANGE_ARGUMENTS
from torchperf_lint.model.handles import last_name, names_bound_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_EVERY = 10
_TITLE = f"show it on the bar every {_EVERY} steps"
_ASSUMES = "the bar may show numbers that are some steps old, and to compute what it shows changes nothing"
_SHOW = frozenset("set_postfix set_postfix_str set_description set_description_str".split())
_CHANGES = CHANGE | CHANGE_ARGUMENTS | {"next", "step", "backward"}
_BETWEEN = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def shown_now_and_then(model: Model, site: Site) -> Fix | None:
    """`if step % 10 == 0:` above what a bar is given, for a read in it, or in a sum that the bar alone takes there."""
    hot_path, function = model.hot_path(site), model.function_of(site)
    loop = None if hot_path is None else hot_path.loop
    if hot_path is None or not isinstance(loop, ast.For) or not site.tree.lossless:
        return None
    shows = _shows(model, function, site, hot_path)
    counter = surroundings.step_counter(model, site)
    counted = () if counter is not None else _counted(model, function, loop)
    if not shows or counted is None:
        return None
    name = counter or _new_counter(model, function, loop)
    if name in set().union(*map(names_bound_in, loop.body)):
        return None
    guards = [_guarded(model, statement, f"if {name} % {_EVERY} == 0:") for statement in shows]
    changed = edits.together(*counted, *guards)
    return None if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES)


def _shows(model: Model, function: FunctionInfo, site: Site, hot_path: HotPath) -> list[ast.stmt]:
    """The statements that give the number to a bar: the site's own, or those that take the sum; empty if others do."""
    own = model.statement_of(site.node)
    found = [own]
    if isinstance(own, ast.AugAssign) and isinstance(own.target, ast.Name):
        uses = model.uses(own.target.id, site, hot_path).of("load")
        starts = {use.start for use in uses if use.inside and not use.sampled}
        taken = [node for node in function.parents if isinstance(node, ast.Name) and node.id == own.target.id]
        seen = [node for node in taken if model.source.offset(node.lineno, node.col_offset) in starts]
        found = [surroundings.statement_around(function, node) for node in seen]
    is_bar = all(_is_show(model, function, each) for each in found)
    return list(dict.fromkeys(found)) if is_bar else []


def _is_show(model: Model, function: FunctionInfo, statement: ast.stmt) -> bool:
    """Whether a statement does nothing but tell a bar what to show."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) not in _SHOW:
        return False
    for node in (part for part in subtree(call) if part is not call):
        if isinstance(node, _BETWEEN):
            return False
        if isinstance(node, ast.Call):
            name, own = last_name(node.func) or "", model.value_in(function, node.func).function
            if name in _CHANGES or (name.endswith("_") and not name.endswith("__")):
                return False
            if own is not None and effects.of_call(model, function, node) != effects.NOTHING:
                return False
    return True


def _guarded(model: Model, statement: ast.stmt, header: str) -> tuple[Edit, ...] | None:
    shown = statement.value if isinstance(statement, ast.Expr) else None
    site = None if shown is None else model.site_at(shown, statement)
    rows = None if site is None else placing.own_rows(model, site)
    return None if site is None or rows is None else edits.put_under(site.tree, rows, header)


def _new_counter(model: Model, function: FunctionInfo, loop: ast.For) -> str:
    """The name of the counter that the fixes of a loop share."""
    return model.remember(("counter of", loop), lambda: surroundings.new_name(model, function, "batch_idx"))


def _counted(model: Model, function: FunctionInfo, loop: ast.For) -> tuple[Edit, ...] | None:
    """`for step, (x, y) in enumerate(bar)` for `for x, y in bar`; None where the header is not on one line."""
    source, (target, walked) = model.source, (loop.target, loop.iter)
    one_line = loop.lineno == (walked.end_lineno or 0) and "#" not in source.line(loop.lineno)
    if not one_line or not model.keeps_builtin("enumerate") or loop.type_comment is not None:
        return None
    start, end = source.offset(target.lineno, target.col_offset), source.offset(loop.lineno, target.end_col_offset or 0)
    text = source.utf8[start:end].decode()
    bare = isinstance(target, ast.Tuple) and not text.startswith("(")
    new = f"{_new_counter(model, function, loop)}, {f'({text})' if bare else text}"
    first, last = source.offset(loop.lineno, walked.col_offset), source.offset(loop.lineno, walked.end_col_offset or 0)
    return (
        Edit(start, end, new.encode()),
        Edit(first, first, b"enumerate("),
        Edit(last, last, b")"),
    )
