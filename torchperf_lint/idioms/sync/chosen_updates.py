"""`if factor < 1: x.mul_(factor)`: an update in place that one number decides, which the device can choose itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.idioms import evaluating, placing
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "choose the update on the device"
_ASSUMES = "the tensor may be written to in place where it keeps its values, too"
_KEEPS = {"mul_": "1", "div_": "1", "sub_": "0"}
"""For each method, the number that leaves every value as it is, a negative zero and NaN as well."""
_OPERATORS = {ast.Mult: "mul_", ast.Div: "div_", ast.Sub: "sub_"}


def updated_anyway(model: Model, site: Site) -> Fix | None:
    """`x.mul_(torch.where(factor < 1, factor, 1))`, and `x.copy_(torch.where(...))` of both branches."""
    statement, function, torch = model.statement_of(site.node), model.function_of(site), model.name_of("torch", site)
    if not isinstance(statement, ast.If) or torch is None or not site.tree.lossless:
        return None
    asks = model.value(site.node)
    alone = isinstance(model.parent(site.node), cst.If) and isinstance(site.node, cst.Comparison)
    if not alone or not asks.is_tensor or asks.dtype != "bool" or not asks.device.on_accelerator:
        return None
    test = statement.test
    if not _computes(model, function, test) or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    text = _of_one(model, function, statement, torch) or _of_two(model, function, statement, torch)
    edit = None if text is None else _in_place_of(model, statement, text)
    fix = None if edit is None else judged(model, function, Fix(_TITLE, Safety.UNSAFE, (edit,), _ASSUMES))
    return fix if isinstance(fix, Fix) else None


def _of_one(model: Model, function: FunctionInfo, statement: ast.If, torch: str) -> str | None:
    """A factor, a divisor or a subtrahend that leaves the values as they are where the branch is not taken."""
    if len(statement.body) != 1 or statement.orelse:
        return None
    body = statement.body[0]
    written: ast.expr
    if isinstance(body, ast.AugAssign):
        method = _OPERATORS.get(type(body.op), "")
        written, given = body.target, body.value
        if not isinstance(written, ast.Name) or not _is_always_tensor(model, function, written):
            return None  # a number is bound anew
    else:
        called = _called_on(body)
        if called is None or len(called[2]) != 1:
            return None
        written, method, (given,) = called
    if method not in _KEEPS or dotted(written) is None or not _is_one_number(model, function, given):
        return None
    if not _is_at_hand(statement.test, given):
        return None
    chosen = f"{torch}.where({ast.unparse(statement.test)}, {ast.unparse(given)}, {_KEEPS[method]})"
    if isinstance(body, ast.AugAssign):
        sign = ast.unparse(body).removeprefix(ast.unparse(written)).split()[0]
        return f"{ast.unparse(written)} {sign} {chosen}"
    return f"{ast.unparse(written)}.{method}({chosen})"


def _is_always_tensor(model: Model, function: FunctionInfo, name: ast.Name) -> bool:
    """Whether the name is bound to tensors alone."""
    held = model.value_in(function, name)
    made = [model.value_in(function, each).is_tensor for each in model.bindings(function, name.id)]
    stores = [each for each in function.nodes if isinstance(each, ast.Name) and each.id == name.id]
    stores = [each for each in stores if not isinstance(each.ctx, ast.Load)]
    added = [each for each in stores if isinstance(function.parents[each], ast.AugAssign)]
    return held.is_tensor and not held.mixed and all(made) and 0 < len(made) == len(stores) - len(added)


def _is_one_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the node is a tensor of one element and of a dtype that a whole number does not change."""
    value = model.value_in(function, node)
    one = value.is_tensor and value.scalar is True and value.device.on_accelerator and value.dtype != "bool"
    return one and _computes(model, function, node)


def _is_at_hand(test: ast.expr, node: ast.expr) -> bool:
    """Whether it takes no more than arithmetic to have the number, beside what the test computes."""
    tested = {ast.unparse(each) for each in subtree(test) if isinstance(each, ast.Call)}
    calls = (each for each in subtree(node) if isinstance(each, (ast.Call, ast.Subscript)))
    return all(ast.unparse(each) in tested for each in calls)


def _of_two(model: Model, function: FunctionInfo, statement: ast.If, torch: str) -> str | None:
    """`x.copy_(y)` or `x.mul_(b).add_(y)`, of which the second begins with a new tensor in the place of x."""
    if len(statement.body) != 1 or len(statement.orelse) != 1:
        return None
    copied = _called_on(statement.body[0])
    if copied is None or copied[1] != "copy_" or len(copied[2]) != 1:
        return None
    written, _, (given,) = copied
    path = dotted(written)
    names = {dotted(each) for each in subtree(statement.test) if isinstance(each, ast.expr)}
    if path is None or path not in names or not _computes(model, function, given):
        return None
    if not all(model.value_in(function, each).is_tensor for each in (written, given)):
        return None
    updated = _updated(model, function, statement.orelse[0], path)
    if updated is None:
        return None
    test = ast.unparse(statement.test)
    return f"{path}.copy_({torch}.where({test}, {ast.unparse(given)}, {updated}))"


def _updated(model: Model, function: FunctionInfo, statement: ast.stmt, path: str) -> str | None:
    """`x.mul(b).add_(y)` of the statement `x.mul_(b).add_(y)`."""
    if not isinstance(statement, ast.Expr):
        return None
    node, calls = statement.value, list[str]()
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("mul_", "add_"):
        given = [*node.args, *(each.value for each in node.keywords)]
        if any(each.arg is None for each in node.keywords) or not all(_computes(model, function, one) for one in given):
            return None
        told = ", ".join(map(ast.unparse, (*node.args, *node.keywords)))
        calls.insert(0, f"{node.func.attr}({told})")
        first, node = node, node.func.value
    if not calls or dotted(node) != path:
        return None
    if any(model.value_in(function, each).is_tensor for each in first.args):
        return None  # a tensor of a higher precision would give a result of that
    return f"{path}.{calls[0].replace('_(', '(', 1)}" + "".join(f".{each}" for each in calls[1:])


def _called_on(statement: ast.stmt) -> tuple[ast.expr, str, list[ast.expr]] | None:
    """What a method is called on, its name and its arguments, if they are a statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.keywords:
        return None
    return (
        None
        if any(isinstance(each, ast.Starred) for each in call.args)
        else (call.func.value, call.func.attr, call.args)
    )


def _computes(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    return evaluating.only_computes(model, function, node)


def _in_place_of(model: Model, statement: ast.If, text: str) -> Edit | None:
    """The statement's lines as one, with the comment behind its test; None where another comment would be lost."""
    source, last = model.source, statement.end_lineno or statement.lineno
    first, *others = (source.line(row) for row in range(statement.lineno, last + 1))
    if first[: statement.col_offset].strip() or first[statement.col_offset :].startswith("elif"):
        return None
    if statement.test.end_lineno != statement.lineno or any("#" in row for row in others) or not others:
        return None
    _, mark, comment = first.encode()[statement.test.end_col_offset :].decode().partition("#")
    start = source.offset(statement.lineno, statement.col_offset)
    end = source.offset(last, statement.end_col_offset or 0)
    plain = placing.has_rows_to_itself(statement, source)
    return Edit(start, end, (f"{text}  {mark}{comment}" if mark else text).encode()) if plain else None
