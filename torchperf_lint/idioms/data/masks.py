"""Parts of a mask dilation in other statements: a named kernel, a result that is tested later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_ARRAYS = ("numpy.array", "numpy.asarray")


def named_array(model: Model, site: Site, name: str) -> tuple[list[list[object]], bool] | None:
    """The rows of `KERNEL = np.array([[0, 1, 0], ...])`, and whether they are certain, with no dtype given.

    None if the name is also bound elsewhere, or its value is written to.
    """
    function = model.function_of(site)
    owner = function if name in function.bound_names else model.top
    made = model.only_binding(owner, name)
    if not isinstance(made, ast.Call) or not made.args or _is_taken_apart(model, name):
        return None
    try:
        rows = ast.literal_eval(made.args[0]) if model.value_in(owner, made.func).ref in _ARRAYS else None
    except ValueError:
        return None
    is_matrix = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
    plain = len(made.args) == 1 and not made.keywords and not may_change(model, name)
    return ([list(row) for row in rows], plain) if is_matrix else None  # type: ignore[union-attr]


def _is_taken_apart(model: Model, name: str) -> bool:
    """Whether the file uses a part of the array, one of its methods, or the array as an output argument."""
    parts = [
        node.value
        for node in model.top.nodes
        if isinstance(node, (ast.Subscript, ast.Attribute)) or (isinstance(node, ast.keyword) and node.arg == "out")
    ]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def may_change(model: Model, name: str) -> bool:
    """Whether the file does anything with the name's value but pass it to library functions that only read it."""
    handed: list[ast.expr] = []
    for record in model.calls_given(name):
        ref = model.callee(record).ref or ""
        if ref.startswith(("scipy.", "numpy.", "torch.nn.functional.")):
            handed += [*record.call.args, *(each.value for each in record.call.keywords if each.arg != "out")]
    loads = [each for each in model.top.nodes if isinstance(each, ast.Name) and each.id == name]
    read = [each for each in loads if isinstance(each.ctx, ast.Load)]
    return model.may_be_rebound(name) or any(each not in handed for each in read)


def is_asked_later(model: Model, site: Site) -> bool:
    """Whether the call binds a name that is only tested for non-zero: `out.astype(bool)`, `out > 0`."""
    name = model.name_given(site)
    return name is not None and _is_only_asked(model.function_of(site), name)


def _is_only_asked(function: FunctionInfo, name: str) -> bool:
    parents = function.parents
    loads = [
        node for node in parents if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]
    return bool(loads) and all(_asks(parents[load], parents) for load in loads)


def _asks(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    if isinstance(node, ast.Compare):
        others = [ast.unparse(each) for each in node.comparators]
        return isinstance(node.ops[0], (ast.Gt, ast.NotEq)) and others == ["0"]
    call = parents.get(node)
    if not isinstance(node, ast.Attribute) or not isinstance(call, ast.Call) or node.attr != "astype":
        return False
    return len(call.args) == 1 and ast.unparse(call.args[0]) in ("bool", "np.bool_", "numpy.bool_", "np.bool")
