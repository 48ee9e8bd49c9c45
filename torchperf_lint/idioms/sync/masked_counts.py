"""Counts of matches under a mask, `(a[m] == b[m]).sum()`: nobody has to know how many elements the mask chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.written_helpers import MATCHES, defined
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import Model

_TITLE = "count the matches among all elements"
_ASSUMES = "no graph is traced there for masks of another shape"


@outside_torchscript
def counted_matches(model: Model, indexed: Indexed) -> Fix | NoFix:
    """`_matches(a, b, m)` for `(a[m] == b[m]).sum()`."""
    site = indexed.site
    compared = _comparison(model, site.node)
    attribute = None if compared is None else model.parent(compared)
    call = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    if compared is None or not isinstance(call, cst.Call) or call.args or shape.method_name(call) != "sum":
        return NoFix.SIZE_IN_THE_DATA
    first, second = compared.left, compared.comparisons[0].comparator
    mask = _one_mask(model, first, second)
    if mask is None or not isinstance(compared.comparisons[0].operator, cst.Equal):
        return NoFix.SIZE_IN_THE_DATA
    held = [each.value for each in (first, second) if isinstance(each, cst.Subscript)]
    meant = [model.ast_of(each) for each in held]
    if any(each is None or not evaluating.only_computes(model, indexed.function, each) for each in meant):
        return NoFix.SIZE_IN_THE_DATA
    torch = model.name_of("torch", site)
    if torch is None or not site.tree.lossless:
        return NoFix.NO_ROOM
    texts = ", ".join(edits.text_of(site.tree, each) for each in (*held, mask))
    changed = edits.together(
        defined(model, MATCHES, torch, indexed.statement),
        edits.replace(site.tree, call, f"{MATCHES.name}({texts})"),
    )
    grade = Safety.UNSAFE if model.may_be_traced else Safety.SAFE
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, grade, changed, _ASSUMES)


def _comparison(model: Model, node: cst.CSTNode) -> cst.Comparison | None:
    """The comparison of two operands of which the subscript is one."""
    parent = model.parent(node)
    if isinstance(parent, cst.ComparisonTarget):
        parent = model.parent(parent)
    return parent if isinstance(parent, cst.Comparison) and len(parent.comparisons) == 1 else None


def _one_mask(model: Model, first: cst.BaseExpression, second: cst.BaseExpression) -> cst.Name | None:
    """`m` of `a[m]` and `b[m]`."""
    masks = [_mask(each) for each in (first, second)]
    if masks[0] is None or masks[1] is None or masks[0].value != masks[1].value:
        return None
    return masks[0]


def _mask(node: cst.BaseExpression) -> cst.Name | None:
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    return index.value if isinstance(index, cst.Index) and isinstance(index.value, cst.Name) else None
