"""A branch that asks whether a mask chooses anything: which mask it asks, and its lines without the question."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.idioms import placing
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site

_COUNTS = frozenset({"sum", "count_nonzero"})


class Asked(NamedTuple):
    """The mask that a branch asks, as a name or a path, and the part of the test that asks it.

    The branch is taken if the mask holds a True, or, if it is `turned`, a False.
    """

    mask: str
    turned: bool
    whole: cst.BaseExpression

    def chooses(self, node: ast.expr) -> bool:
        """Whether the expression chooses what makes the branch be taken."""
        return self._turns(node) is self.turned

    def spares(self, node: ast.expr) -> bool:
        """Whether the expression chooses all the rest."""
        return self._turns(node) is (not self.turned)

    def _turns(self, node: ast.expr) -> bool | None:
        """Whether it is `~mask`, or the mask itself; None for anything else."""
        turned = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)
        inner = node.operand if isinstance(node, ast.UnaryOp) and turned else node
        return turned if dotted(inner) == self.mask else None


def asked_mask(model: Model, site: Site) -> Asked | None:
    """What the site asks: `mask.any()`, `torch.any(mask)`, `not mask.all()`, `mask.sum() > 0`."""
    node = site.node
    assert isinstance(node, cst.BaseExpression)
    of_count = _counted(node)
    if of_count is not None:
        mask = _of_bools(model, _taken_of(model, of_count, _COUNTS))
        return None if mask is None else Asked(mask, False, node)
    asks = _read_of(model, node)
    any_of, all_of = (_taken_of(model, asks, frozenset({name})) for name in ("any", "all"))
    if any_of is not None:
        turned = isinstance(any_of, cst.UnaryOperation) and isinstance(any_of.operator, cst.BitInvert)
        inner = any_of.expression if isinstance(any_of, cst.UnaryOperation) else any_of
        mask = _of_bools(model, inner) if turned else shape.dotted(inner)
        return None if mask is None else Asked(mask, turned, node)
    around, mask = model.parent(node), _of_bools(model, all_of)
    if mask is None or not isinstance(around, cst.UnaryOperation) or not isinstance(around.operator, cst.Not):
        return None
    return Asked(mask, True, around)


def _read_of(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `x.item()` and `bool(x)`."""
    if isinstance(node, cst.Call) and shape.method_name(node) == "item" and not node.args:
        return shape.receiver(node) or node
    if isinstance(node, cst.Call) and model.value(node.func).ref == "builtins.bool" and len(node.args) == 1:
        return node.args[0].value
    return node


def _taken_of(model: Model, node: cst.BaseExpression, names: frozenset[str]) -> cst.BaseExpression | None:
    """`mask` of `mask.any()` and `torch.any(mask)`, for one of these names."""
    if not isinstance(node, cst.Call):
        return None
    given = node.args[0].value if len(node.args) == 1 and not node.args[0].star and not node.args[0].keyword else None
    if given is not None and model.value(node.func).ref in {f"torch.{name}" for name in names}:
        return given
    return shape.receiver(node) if shape.method_name(node) in names and not node.args else None


def _counted(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`mask.sum()` of `mask.sum() > 0` and `mask.sum() != 0`."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    compared = node.comparisons[0]
    with_nothing = shape.is_literal(compared.comparator, "0")
    return node.left if with_nothing and isinstance(compared.operator, (cst.GreaterThan, cst.NotEqual)) else None


def _of_bools(model: Model, node: cst.BaseExpression | None) -> str | None:
    """The path of a mask that surely holds truth values."""
    return shape.dotted(node) if node is not None and model.value(node).dtype == "bool" else None


def without_asking(model: Model, site: Site, asked: Asked, statement: ast.If) -> tuple[Edit, ...] | None:
    """The branch's lines in the place of the statement, or what else the test asks before them."""
    around = model.parent(asked.whole)
    if isinstance(around, cst.If):
        return _without_header(model, statement)
    if not isinstance(around, cst.BooleanOperation) or around.right is not asked.whole:
        return None
    if not isinstance(model.parent(around), cst.If) or not isinstance(around.operator, cst.And):
        return None
    left = edits.text_of(site.tree, around.left)
    return None if around.lpar or around.left.lpar else edits.together(edits.replace(site.tree, around, left))


def _without_header(model: Model, statement: ast.If) -> tuple[Edit, ...] | None:
    """The lines of the branch, one step out, in the place of the whole statement."""
    source, first, last = model.source, statement.lineno, statement.end_lineno or statement.lineno
    body = statement.body[0]
    header = source.line(first)
    if header[: statement.col_offset].strip() or statement.test.end_lineno != first:
        return None
    if header[statement.col_offset :].startswith("elif"):
        return None  # the statement is a branch of another
    _, mark, comment = header.encode()[statement.test.end_col_offset :].decode().partition("#")
    if not all(placing.has_rows_to_itself(each, source) for each in statement.body) or body.lineno == first:
        return None
    inner, outer = source.line(body.lineno)[: body.col_offset], header[: statement.col_offset]
    lines = [source.line(row) for row in range(first + 1, last + 1)]
    if not all(line.startswith(inner) or not line.strip() for line in lines):
        return None
    if any(_holds_text(each) for each in statement.body):
        return None  # a string over several lines, which would be moved as well
    start = source.line_starts[first - 1]
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.utf8)
    ending = source.newline if last < len(source.line_starts) else ""
    moved = [outer + line[len(inner) :] if line.strip() else line for line in lines]
    text = source.newline.join([f"{outer}{mark}{comment}", *moved] if mark else moved)
    return (Edit(start, end, f"{text.rstrip()}{ending}".encode()),)


def _holds_text(statement: ast.stmt) -> bool:
    """Whether a string or a formatted one stands on several lines."""
    texts = (each for each in ast.walk(statement) if isinstance(each, (ast.Constant, ast.JoinedStr)))
    return any(each.end_lineno != each.lineno for each in texts)
