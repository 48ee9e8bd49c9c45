"""Walks over a tree give what those of `ast` give, without contexts."""

from __future__ import annotations

import ast
from pathlib import Path

from torchperf_lint.syntax.tree import children, subtree

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [path.read_text("utf-8") for path in sorted((ROOT / "torchperf_lint" / "model").rglob("*.py"))]
EVERY_FORM = """
from __future__ import annotations
import a.b as c
@d(1)
async def f(p, /, q: int = 1, *r, s, t=2, **u) -> None:
    async with x as y, z:
        async for i in await j: yield k
    global g
    return [l async for l in m if n]
class C(B, metaclass=M):
    x: int
    y: list[int] = [*a, -b, not c, 1 < d <= e, f if g else h, lambda: 0, (v := 1)]
def h(*, only, given=None):
    nonlocal_free = {**a, 1: 2, **b}
    try: assert x, f"{y!r:>{width}}"
    except* E as error: raise error from None
    finally: del a[1:2, ...], b.c
    while True:
        if a: break
        elif b: continue
        else: a += 1
    match point:
        case {"x": 0, **rest}: pass
        case [1, *others] | Point(x=2) as whole if others: pass
        case None: pass
    yield from ({s for s in {1}}, {k: v for k, v in d})
"""
OF_LATER_PYTHONS = "type Pair[T: int, *Ts, **P] = tuple[T, T]\ndef f[T](x: T) -> T: ...\nclass C[T]: ...\n"


def without_contexts(nodes):
    return [node for node in nodes if not isinstance(node, ast.expr_context)]


def trees():
    form = EVERY_FORM if hasattr(ast, "TryStar") else EVERY_FORM.replace("except*", "except")
    later = OF_LATER_PYTHONS if hasattr(ast, "TypeAlias") else ""
    return [ast.parse(form + later), *map(ast.parse, SOURCES)]


def test_subtree_is_a_walk():
    for tree in trees():
        assert subtree(tree) == without_contexts(ast.walk(tree))


def test_children_are_those_of_every_node():
    for tree in trees():
        for node in ast.walk(tree):
            assert children(node) == without_contexts(ast.iter_child_nodes(node))
