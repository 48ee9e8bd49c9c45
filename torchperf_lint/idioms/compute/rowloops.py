"""Python loops over the rows of a device tensor that compute the same for each row."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_SIZES_VARY = frozenset(
    "nonzero unique unique_consecutive masked_select bincount histc where argwhere item tolist cpu numpy to".split()
)
"""Operations whose result size may differ between rows, or whose result leaves the device."""


def rows_of(model: Model, site: Site) -> str | None:
    """The device tensor whose rows the `range(...)` loop at the site processes one by one, if it does only that."""
    loop, call, function = model.statement_of(site.node), model.ast_of(site.node), model.function_of(site)
    if not isinstance(loop, ast.For) or loop.iter is not call or not isinstance(call, ast.Call) or loop.orelse:
        return None
    if not isinstance(loop.target, ast.Name) or len(call.args) != 1 or len(loop.body) != 1:
        return None
    tensor, counter = _sized(call.args[0]), loop.target.id
    computed = _computed(loop.body[0], counter)
    if tensor is None or computed is None or dotted(tensor) is None:
        return None
    value = model.value_in(function, tensor)
    measured = not isinstance(call.args[0], ast.Call) or isinstance(call.args[0].func, ast.Attribute)
    if not value.device.on_accelerator or not (value.is_tensor or (measured and value.holds_tensors)):
        return None
    written, expression = computed
    plain = all(_is_plain(model, function, node, counter, written) for node in subtree(expression))
    reads = any(_takes_row(node, counter, dotted(tensor)) for node in subtree(expression))
    works = any(isinstance(node, (ast.BinOp, ast.Call)) for node in subtree(expression))
    return dotted(tensor) if plain and reads and works else None


def _sized(node: ast.expr) -> ast.expr | None:
    """`x` of `x.shape[0]`, `x.size(0)` and `len(x)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return node.value.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size" and node.args:
        return node.func.value
    is_len = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"
    return node.args[0] if is_len and isinstance(node, ast.Call) and len(node.args) == 1 else None


def _computed(statement: ast.stmt, counter: str) -> tuple[str, ast.expr] | None:
    """What each pass writes to, and the expression: `out[i] = ...` or `out.append(...)`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        name = dotted(target.value) if isinstance(target, ast.Subscript) and _names(target.slice, counter) else None
        return None if name is None else (name, statement.value)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append" and call.args:
        name = dotted(call.func.value)
        return None if name is None else (name, call.args[0])
    return None


def _is_plain(model: Model, function: FunctionInfo, node: ast.AST, counter: str, written: str) -> bool:
    """Whether a part of the expression is the same for each row, and does not depend on an earlier pass."""
    if isinstance(node, ast.Call):
        name = last_name(node.func) or ""
        of_torch = (model.value_in(function, node.func).ref or "").startswith("torch.")
        owner = model.value_in(function, node.func.value) if isinstance(node.func, ast.Attribute) else None
        return (
            (of_torch or (owner is not None and owner.holds_tensors)) and name not in _SIZES_VARY and "rand" not in name
        )
    if isinstance(node, ast.Subscript):
        if any(isinstance(each, (ast.Compare, ast.Call)) for each in subtree(node.slice)):
            return False
        return not _names(node.slice, counter) or model.value_in(function, node.value).holds_tensors
    if isinstance(node, ast.Slice):
        return not any(_names(part, counter) for part in (node.lower, node.upper, node.step) if part is not None)
    if isinstance(node, ast.BinOp) and any(
        isinstance(each, ast.Name) and each.id == counter for each in (node.left, node.right)
    ):
        return False
    is_comprehension = isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.IfExp, ast.Lambda))
    return not is_comprehension and not (isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) == written)


def _takes_row(node: ast.AST, counter: str, tensor: str | None) -> bool:
    return isinstance(node, ast.Subscript) and dotted(node.value) == tensor and _names(node.slice, counter)


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in subtree(node))
