"""Collectives in code that runs for every batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import collectives
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_CLOCKS = frozenset("time perf_counter monotonic process_time perf_counter_ns elapsed_time record start stop".split())


def asks_only_for_others(model: Model, site: Site) -> bool:
    """Whether the tests around the site, within its function, only check whether there are other processes."""
    return all(
        collectives.ASKS_FOR_OTHERS.search(ast.unparse(test).lower()) is not None for test in _tests_around(model, site)
    )


def _tests_around(model: Model, site: Site) -> Iterator[ast.expr]:
    hot_path = model.hot_path(site)
    loop = None if hot_path is None else hot_path.loop
    for around in model.place(site.node).around():
        if around is loop:
            return
        if isinstance(around, (ast.If, ast.While)):
            yield around.test


def stands_beside_a_clock(model: Model, site: Site) -> bool:
    """Whether the statement before or after the site's reads a clock: then the program wants to wait."""
    place = model.place(site.node)
    beside = place.block[max(place.position - 1, 0) : place.position + 2]
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in _CLOCKS for each in beside for node in subtree(each)
    )


def parameter_walk(model: Model, site: Site) -> Because | None:
    """The loop over parameters whose gradients the collective at the site reduces one by one."""
    call, place = model.ast_of(site.node), model.place(site.node)
    loop = next(iter(place.loops()), None)
    if not isinstance(loop, ast.For) or not isinstance(call, ast.Call) or not call.args:
        return None
    targets = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
    walked = {last_name(node) or "" for node in subtree(loop.iter) if isinstance(node, ast.expr)}
    root, _, rest = (dotted(call.args[0]) or "").partition(".")
    if root not in targets:
        return None
    over_parameters = any("param" in name.lower() for name in walked)
    over_gradients = any("grad" in name.lower() for name in walked)
    if not (over_parameters and rest in ("grad", "grad.data")) and not (over_gradients and rest in ("", "data")):
        return None
    if not all(map(_asks_for_gradient, place.tests(loop))):
        return None
    earlier = [each for each in loop.body if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Continue)]
    if any(not _asks_for_gradient(each.test) for each in earlier):
        return None
    return Because(loop.lineno, "this loop walks over the parameters", model.path)


def _asks_for_gradient(test: ast.expr) -> bool:
    """`p.grad is not None`, `p.requires_grad`: true for most parameters."""
    asked = {node.attr for node in subtree(test) if isinstance(node, ast.Attribute)}
    calls = any(isinstance(node, ast.Call) for node in subtree(test))
    return not calls and (bool(asked) or isinstance(test, ast.Compare)) and asked <= {"grad", "requires_grad"}
