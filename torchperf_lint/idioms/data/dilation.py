"""Mask dilation: by a convolution, a maximum over windows, or a morphological dilation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data import masks
from torchperf_lint.idioms.placing import beside
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.arguments import Given
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_CONVOLVE = "scipy.signal.convolve2d"
_CORRELATE = "scipy.signal.correlate2d"
_DILATE = "scipy.ndimage.binary_dilation"
_POOL = "torch.nn.functional.max_pool2d"
_CONV = "torch.nn.functional.conv2d"
CALLS = (_CONVOLVE, _CORRELATE, _DILATE, _POOL, _CONV)

Kernel = tuple[tuple[int, ...], ...]
_ONES: Kernel = ((1, 1, 1),) * 3
_CROSS: Kernel = ((0, 1, 0), (1, 1, 1), (0, 1, 0))
_SIZES = ("3", "(3,3)", "[3,3]")
_TWO = ("1", "(1,1)", "[1,1]")


class Growth(NamedTuple):
    """A mask that is dilated at a site."""

    whole: cst.BaseExpression  # what yields the dilated mask: the call, or the non-zero test around it
    part: str  # the part of the dilated mask that is tested: `[0, 0]`
    mask: cst.BaseExpression
    shifts: tuple[tuple[int, int], ...]  # of the mask padded by one: the first rows and columns
    of_torch: bool
    fixed_kernel: bool  # it is a literal, or a name that is never rebound
    exact_sum: bool  # for a boolean mask the call finds exactly the right pixels
    asked_later: bool = False  # another statement makes the non-zero test


def growth_at(model: Model, site: Site) -> Growth | None:
    """The mask that is dilated at the site of one of CALLS; None if uncertain."""
    ref = model.value(site.node.func).ref
    if any(each.star for each in site.node.args):
        return None
    if ref in (_CONVOLVE, _CORRELATE):
        return _convolved(model, site, turned=ref == _CONVOLVE)
    if ref == _DILATE:
        return _dilated(model, site)
    return _pooled(model, site) if ref == _POOL else _weighted(model, site)


def _convolved(model: Model, site: Site, *, turned: bool) -> Growth | None:
    asked, mask = _asked(model, site), _plain(model, site, "in1", 0)
    same, kernel = given(model, site.node, "mode", 2), _kernel(model, site, "in2", 1)
    later = asked is None and masks.is_asked_later(model, site)
    asked = (site.node, "") if later else asked
    if asked is None or mask is None or kernel is None or same is None or same.value is None:
        return None
    if same.value.constant != "same" or not _absent(model, site, ("boundary", 3), ("fillvalue", 4)):
        return None
    rows, fixed = kernel
    return Growth(*asked, mask, _shifts(rows, turned=turned), False, fixed, True, later)


def _dilated(model: Model, site: Site) -> Growth | None:
    mask, kernel = _plain(model, site, "input", 0), _kernel(model, site, "structure", 1)
    others = ("iterations", 2), ("mask", 3), ("output", 4), ("border_value", 5), ("origin", 6), ("brute_force", 7)
    if mask is None or kernel is None or not _absent(model, site, *others, ("axes", None)):
        return None
    rows, fixed = kernel
    return Growth(site.node, "", mask, _shifts(rows, turned=True), False, fixed, True)


def _pooled(model: Model, site: Site) -> Growth | None:
    """`max_pool2d(mask.float(), 3, stride=1, padding=1) > 0`."""
    asked, mask = _asked(model, site), _without_cast(_plain(model, site, "input", 0))
    written = (("kernel_size", 1, _SIZES), ("stride", 2, _TWO), ("padding", 3, _TWO))
    if asked is None or mask is None or not all(_is_one_of(model, site, *each) for each in written):
        return None
    if not _absent(model, site, ("dilation", 4), ("ceil_mode", 5), ("return_indices", 6)):
        return None
    return Growth(*asked, mask, _shifts(_ONES, turned=False), True, True, True)


def _weighted(model: Model, site: Site) -> Growth | None:
    """`conv2d(mask.float(), torch.ones(1, 1, 3, 3), padding=1) > 0`."""
    asked, mask = _asked(model, site), _without_cast(_plain(model, site, "input", 0))
    weight = _plain(model, site, "weight", 1)
    rows = None if weight is None else _weight(model, weight)
    if asked is None or mask is None or rows is None or not _is_one_of(model, site, "padding", 4, _TWO):
        return None
    if not _absent(model, site, ("bias", 2), ("stride", 3), ("dilation", 5), ("groups", 6)):
        return None
    return Growth(*asked, mask, _shifts(rows, turned=False), True, True, False)


def _weight(model: Model, node: cst.BaseExpression) -> Kernel | None:
    """The kernel tensor made in the call, or at the top of the file if it is only passed on."""
    made, function = model.ast_of(node), model.function_of(model.site(node))
    if isinstance(made, ast.Name):
        name, function = made.id, model.top
        bound = model.only_binding(function, name)
        if bound is None or masks.may_change(model, name):
            return None
        made = bound
    if not isinstance(made, ast.Call):
        return None
    ref = model.value_in(function, made.func).ref
    try:
        given_to = [ast.literal_eval(each) for each in made.args]
    except ValueError:
        return None
    if ref == "torch.ones" and not made.keywords:
        return _ONES if given_to in ([1, 1, 3, 3], [(1, 1, 3, 3)]) else None
    plain = ref == "torch.tensor" and len(given_to) == 1 and all(each.arg == "dtype" for each in made.keywords)
    return _rows_of(given_to[0]) if plain else None


def _rows_of(numbers: object) -> Kernel | None:
    """The rows of `[[[[0, 1, 0], [1, 1, 1], [0, 1, 0]]]]`."""
    for _ in range(2):
        if not isinstance(numbers, list) or len(numbers) != 1:
            return None
        numbers = numbers[0]
    rows = numbers if isinstance(numbers, list) and len(numbers) == 3 else []
    if not rows or not all(isinstance(row, list) and len(row) == 3 and set(row) <= {0, 1} for row in rows):
        return None
    return tuple(tuple(int(each) for each in row) for row in rows)


def _plain(model: Model, site: Site, name: str, position: int) -> cst.BaseExpression | None:
    passed = given(model, site.node, name, position)
    return None if passed is None else passed.node


def _absent(model: Model, site: Site, *parameters: tuple[str, int | None]) -> bool:
    passed: list[Given | None] = [given(model, site.node, name, position) for name, position in parameters]
    return all(each is not None and each.absent for each in passed)


def _is_one_of(model: Model, site: Site, name: str, position: int, texts: tuple[str, ...]) -> bool:
    node = _plain(model, site, name, position)
    return node is not None and _bare(model, node) in texts


def _bare(model: Model, node: cst.BaseExpression) -> str:
    text = model.text(node).replace(" ", "")
    return f"({text})" if isinstance(node, cst.Tuple) and not text.startswith("(") else text


def _without_cast(node: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """`mask` of `mask.float()`; None for anything else."""
    if isinstance(node, cst.Call) and not node.args and shape.method_name(node) == "float":
        return shape.receiver(node)
    return None


def _asked(model: Model, site: Site) -> tuple[cst.BaseExpression, str] | None:
    """The expression around the call that only tests its result for non-zero, and the part that it takes."""
    part: cst.BaseExpression = site.node
    text = ""
    parent = model.parent(part)
    while isinstance(parent, cst.Subscript) and parent.value is part and not part.lpar:
        text += model.text(parent)[len(model.text(part)) :]
        part, parent = parent, model.parent(parent)
    if isinstance(parent, cst.Attribute):
        call = model.parent(parent)
        if not isinstance(call, cst.Call) or call.func is not parent:
            return None
        if parent.attr.value == "bool":
            return None if call.args else (call, text)
        kind = model.text(call.args[0].value) if parent.attr.value == "astype" and len(call.args) == 1 else ""
        is_bool = kind.rpartition(".")[2].rstrip("_") == "bool" and model.keeps_builtin("bool")
        return (call, text) if is_bool else None
    if isinstance(parent, cst.Comparison) and len(parent.comparisons) == 1 and parent.left is part:
        asked = parent.comparisons[0]
        compares = isinstance(asked.operator, (cst.GreaterThan, cst.NotEqual))
        return (parent, text) if compares and shape.is_literal(asked.comparator, "0") else None
    return None


def _kernel(model: Model, site: Site, name: str, position: int) -> tuple[Kernel, bool] | None:
    """The kernel's rows, three by three zeros and ones, and whether they are certain."""
    node = _plain(model, site, name, position)
    if node is None:
        return None
    fixed = True
    if isinstance(node, cst.Call) and node.args:
        ref = model.value(node.func).ref
        texts = [_bare(model, each.value) for each in node.args]
        if ref == "numpy.ones":
            return (_ONES, len(texts) == 1) if texts[0] in _SIZES[1:] else None
        if ref == "scipy.ndimage.generate_binary_structure":
            known = {"1": _CROSS, "2": _ONES}.get(texts[1]) if len(texts) == 2 and texts[0] == "2" else None
            return None if known is None or any(each.keyword for each in node.args) else (known, True)
        fixed = len(texts) == 1
        node = node.args[0].value if ref in ("numpy.array", "numpy.asarray") else None
    if isinstance(node, cst.Name) and (array := masks.named_array(model, site, node.value)) is not None:
        return _checked(*array)
    if isinstance(node, (cst.Name, cst.Attribute)):
        fixed = fixed and _keeps_its_rows(model, node)
    value = None if node is None else model.value(node)
    if value is None or value.kind is not Kind.CONTAINER or value.items is None:
        return None
    return _checked([[each.constant for _, each in row.items or ()] for _, row in value.items], fixed)


def _checked(rows: list[list[object]], fixed: bool) -> tuple[Kernel, bool] | None:
    plain = len(rows) == 3 and all(len(row) == 3 and all(each in (0, 1) for each in row) for row in rows)
    ones = tuple(tuple(int(each == 1) for each in row) for row in rows)
    return (ones, fixed) if plain and any(map(any, ones)) else None


def _keeps_its_rows(model: Model, node: cst.BaseExpression) -> bool:
    """Whether a name at the top of this file is bound to literal rows that nothing changes."""
    text = model.text(node)
    bound = model.top.bound_names
    written = any(
        isinstance(each, ast.Assign)
        and isinstance(each.value, (ast.List, ast.Tuple))
        and [dotted(target) for target in each.targets] == [text]
        for each in model.top.body
    )
    return written and bound.count(text) == 1 and not masks.may_change(model, text)


def _shifts(rows: Kernel, *, turned: bool) -> tuple[tuple[int, int], ...]:
    places = [(row, column) for row in range(3) for column in range(3) if rows[row][column]]
    return tuple(sorted((2 - row, 2 - column) for row, column in places) if turned else places)


# -- what the mask is, and when it is computed -------------------------------------------------------------------------

_LOGICAL = frozenset("logical_and logical_or logical_not logical_xor isnan isfinite isinf isin isclose".split())
_COMPARES = (ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def is_boolean(model: Model, mask: cst.BaseExpression) -> bool:
    """Whether an array or tensor is boolean: a comparison, or a name that the function binds to one, once."""
    node = model.ast_of(mask)
    return node is not None and _is_boolean(model, model.function_of(model.site(mask)), node)


def _is_boolean(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        bound = model.only_binding(function, node.id)
        return bound is not None and _is_boolean(model, function, bound)
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], _COMPARES)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and _is_boolean(model, function, node.operand)
    if isinstance(node, ast.BinOp):
        both = all(_is_boolean(model, function, side) for side in (node.left, node.right))
        return both and isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
    if isinstance(node, ast.Call) and not node.keywords:
        ref = model.value_in(function, node.func).ref or ""
        if ref.startswith(("numpy.", "torch.")):
            return ref.rpartition(".")[2] in _LOGICAL
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return [ast.unparse(each) for each in node.args] == ["bool"] and model.keeps_builtin("bool")
        return isinstance(node.func, ast.Attribute) and node.func.attr == "bool" and not node.args
    return False


def lines_before(model: Model, growth: Growth, lines: Sequence[str]) -> Edit | None:
    """Insert lines that compute the mask before the statement; None if it might then be computed at another time."""
    can_come_first = _can_come_first(model, growth)
    return beside(model, model.statement_of(growth.whole), lines, behind=False) if can_come_first else None


def _can_come_first(model: Model, growth: Growth) -> bool:
    """Whether the statement always evaluates the mask, and neither binds nor calls anything before it."""
    node, statement = model.ast_of(growth.whole), model.statement_of(growth.whole)
    if node is None or not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)):
        return False
    around = [each for each in subtree(statement) if any(inner is node for inner in subtree(each))]
    if not all(isinstance(each, (*_EVALUATES_ALL, type(statement))) or each is node for each in around):
        return False
    own = set(subtree(node))
    others = [each for each in subtree(statement) if each not in own and each not in around]
    return not any(isinstance(each, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for each in others)


_EVALUATES_ALL = (
    *(ast.Call, ast.keyword, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Dict),
    *(ast.BinOp, ast.UnaryOp, ast.Starred),
)
"""Nodes that evaluate all of their parts."""
