"""`if mask.any(): x[mask] = 0`: the write does nothing where the mask chooses nothing, so nobody needs to ask."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.idioms import placing
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "write through the mask without asking whether it chooses anything"
_ASSUMES = "the mask holds truth values, and the tensor may be written to in place where it chooses nothing, too"


def written_anyway(model: Model, site: Site) -> Fix | None:
    """The writes without the test, or with what else the test asks."""
    statement, function = model.statement_of(site.node), model.function_of(site)
    if not isinstance(statement, ast.If) or statement.orelse or not site.tree.lossless:
        return None
    mask = _asked(model, site)
    if mask is None or not _only_writes_through(model, function, statement.body, mask):
        return None
    whole = model.parent(site.node)
    if isinstance(whole, cst.If):
        changed = _without_header(model, statement)
    elif (
        isinstance(whole, cst.BooleanOperation) and whole.right is site.node and isinstance(model.parent(whole), cst.If)
    ):
        is_and = isinstance(whole.operator, cst.And) and not whole.lpar
        left = edits.text_of(site.tree, whole.left)
        changed = edits.together(edits.replace(site.tree, whole, left)) if is_and and not whole.left.lpar else None
    else:
        return None
    return None if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES)


def _asked(model: Model, site: Site) -> str | None:
    """`mask` of `mask.any()`, `torch.any(mask)`, `bool(mask.any())` and `mask.any().item()`; a name or a path."""
    node = site.node
    if isinstance(node, cst.Call) and shape.method_name(node) == "item" and not node.args:
        node = shape.receiver(node)
    elif isinstance(node, cst.Call) and model.value(node.func).ref == "builtins.bool" and len(node.args) == 1:
        node = node.args[0].value
    if not isinstance(node, cst.Call):
        return None
    given = node.args[0].value if len(node.args) == 1 and not node.args[0].star and not node.args[0].keyword else None
    if model.value(node.func).ref == "torch.any" and given is not None:
        return shape.dotted(given)
    owner = shape.receiver(node)
    return shape.dotted(owner) if shape.method_name(node) == "any" and not node.args and owner is not None else None


def _only_writes_through(model: Model, function: FunctionInfo, body: Sequence[ast.stmt], mask: str) -> bool:
    """Whether all that the statements do is to write numbers to the elements that the mask chooses."""
    for statement in body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
            return False
        dtype = model.value_in(function, target.slice).dtype
        if dotted(target.slice) != mask or dtype not in (None, "bool"):
            return False
        written = dotted(target.value) or _part(target.value)
        if written is None or written == mask or written.startswith(f"{mask}."):
            return False
        if model.value_in(function, target.value).kind is Kind.CONTAINER:
            return False  # an entry of a dict, whose key is the mask
        if not model.is_certain_number(function, statement.value) or not _only_reckons(
            model, function, statement.value
        ):
            return False
    return True


def _only_reckons(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the number is made without code of the project: `float("-inf")`."""
    calls = [each for each in subtree(node) if isinstance(each, (ast.Call, ast.Await, ast.NamedExpr))]
    return all(
        isinstance(each, ast.Call)
        and (model.value_in(function, each.func).ref or "").startswith(("builtins.", "math."))
        for each in calls
    )


def _part(node: ast.expr) -> str | None:
    """`x` of `x[1:]`, which is a view."""
    if not isinstance(node, ast.Subscript):
        return None
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    plain = all(isinstance(each, ast.Slice) for each in parts)
    return dotted(node.value) if plain else None


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
    if not all(each.lineno == each.end_lineno and placing.has_rows_to_itself(each, source) for each in statement.body):
        return None
    inner, outer = source.line(body.lineno)[: body.col_offset], header[: statement.col_offset]
    lines = [source.line(row) for row in range(first + 1, last + 1)]
    if body.lineno == first:
        return None
    if not all(line.startswith(inner) or not line.strip() for line in lines):
        return None
    start = source.line_starts[first - 1]
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.utf8)
    ending = source.newline if last < len(source.line_starts) else ""
    moved = [outer + line[len(inner) :] if line.strip() else line for line in lines]
    text = source.newline.join([f"{outer}{mark}{comment}", *moved] if mark else moved)
    return (Edit(start, end, f"{text.rstrip()}{ending}".encode()),)
