"""Several reads of one display, `(f(x).item(), g(x).item())`: all tensors are made first, and one read takes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import effects
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.sync.reads import hot_read_of
from torchperf_lint.idioms.transfer.pinned_copies import rests_on_waits
from torchperf_lint.idioms.written_helpers import ITEMS, defined
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model

_TITLE = "make the tensors first, and read all of them at once"
_ASSUMES = "to make a tensor changes none that was made before"
_BUILTINS = ("all", "dict", "len", "list", "tuple", "type", "zip")
_BETWEEN = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


@outside_torchscript
def items_of_display(model: Model, read: HostRead) -> Fix | NoFix:
    """`tuple(_items([f(x), g(x)]))` for `f(x).item(), g(x).item()`, and the same for lists and dicts of reads alone."""
    display, reads = _display_of(model, read)
    if display is None or len(reads) < 2 or any(each.reader != "item" or each.unfixed for each in reads):
        return NoFix.FORM
    torch, tree = model.name_of("torch", read.site), read.site.tree
    meaning, function = model.ast_of(display), model.function_of(read.site)
    if meaning is None or any(isinstance(each, _BETWEEN) for each in subtree(meaning)):
        return NoFix.FORM
    if torch is None or not tree.lossless or not all(map(model.keeps_builtin, _BUILTINS)):
        return NoFix.NO_ROOM
    start, end = tree.span(display)
    is_tuple, is_bare = isinstance(display, cst.Tuple), isinstance(display, cst.Tuple) and not display.lpar
    opening = edits.after_word(tree, start) + (f"tuple({ITEMS.name}([" if is_tuple else f"{ITEMS.name}(")
    closing = "]))" if is_tuple else ")"
    inner = (start, end) if is_bare or not is_tuple else (start + 1, end - 1)
    around = (Edit(start, inner[0], opening.encode()), Edit(inner[1], end, closing.encode()))
    kept = [
        edits.replace(
            tree,
            each.site.node,
            edits.text_of(tree, each.tensor) + (".detach()" if isinstance(each.tensor, cst.Call) else ""),
        )
        for each in reads
    ]
    changed = edits.together(defined(model, ITEMS, torch, model.statement_of(read.site.node)), around, *kept)
    if changed is None:
        return NoFix.NO_ROOM
    known = not rests_on_waits(model) and not effects.of_code(model, function, subtree(meaning)).tensors
    return Fix(_TITLE, Safety.SAFE if known else Safety.UNSAFE, changed, _ASSUMES)


def _display_of(model: Model, read: HostRead) -> tuple[cst.BaseExpression | None, Sequence[HostRead]]:
    """The display whose elements are reads, and nothing else; its reads in order."""
    element = model.parent(read.site.node)
    display = model.parent(element) if isinstance(element, (cst.Element, cst.DictElement)) else None
    if not isinstance(display, (cst.Tuple, cst.List, cst.Dict)):
        return None, []
    found = [(each.value, hot_read_of(model, model.site(each.value))) for each in display.elements]
    plain = all(isinstance(each, (cst.Element, cst.DictElement)) for each in display.elements)
    reads = [each for value, each in found if each is not None and each.site.node is value]
    return (display, reads) if plain and len(reads) == len(found) else (None, [])
