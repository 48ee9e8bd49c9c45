"""Sums over a model's parameters that begin as a Python number: `norm = 0.0`, then `norm += p.grad.norm()`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_GIVE_PARAMETERS = ("parameters", "named_parameters")
_HOLD_PARAMETERS = ("params", "parameters")
_GROUPS = "param_groups"
_GRADIENT = "grad"


def terms_of_sum(model: Model, function: FunctionInfo, node: ast.Name) -> list[ast.expr]:
    """What a loop over all parameters adds to the name, if it has been a number before, and the node is read after it.

    A model has parameters, and some of them gradients: so the sum is a tensor by then, if the terms are. Empty if the
    loop may be left out, or if it skips parameters for anything but a missing gradient.
    """
    stores = [each for each in function.nodes if _stores(each, node.id)]
    starts = [each for each in stores if isinstance(each, (ast.Assign, ast.AnnAssign)) and _is_number(each)]
    added = [each for each in stores if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)]
    if len(starts) != 1 or not added or len(starts) + len(added) != len(stores):
        return []
    loops = [_loop_around(model, each) for each in added]
    if not all(
        loop is not None and _always_follows(model, starts[0], loop) and _ends_before(loop, node) for loop in loops
    ):
        return []
    return [each.value for each in added]


def _stores(node: ast.AST, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(part, ast.Name) and part.id == name for each in targets if each for part in subtree(each))


def _is_number(assigned: ast.Assign | ast.AnnAssign) -> bool:
    """`norm = 0.0`, `norm: float | Tensor = 0.0`."""
    alone = isinstance(assigned, ast.AnnAssign) or len(assigned.targets) == 1
    return alone and isinstance(assigned.value, ast.Constant) and isinstance(assigned.value.value, (int, float))


def _loop_around(model: Model, added: ast.AugAssign) -> ast.For | None:
    """The loop over parameters that makes the addition in each pass for a parameter with a gradient."""
    for around in model.place_of(added).around():
        if isinstance(around, ast.If) and _asks_for_gradient(around.test) and _stands_in(around.body, added):
            continue
        if not isinstance(around, ast.For) or not _walks_parameters(around.iter):
            return None
        skips = [each for each in subtree(around) if isinstance(each, (ast.Continue, ast.Break, ast.Return))]
        return (
            around if all(isinstance(each, ast.Continue) and _is_for_gradient(model, each) for each in skips) else None
        )
    return None


def _is_for_gradient(model: Model, skip: ast.Continue) -> bool:
    nearest = next(iter(model.place_of(skip).around()), None)
    return isinstance(nearest, ast.If) and _asks_for_no_gradient(nearest.test) and _stands_in(nearest.body, skip)


def _stands_in(block: list[ast.stmt], statement: ast.stmt) -> bool:
    return any(each is statement for part in block for each in subtree(part))


def _asks_for_gradient(test: ast.expr) -> bool:
    """`p.grad is not None`, `p.requires_grad`."""
    if isinstance(test, ast.Compare):
        return last_name(test.left) == _GRADIENT and isinstance(test.ops[0], ast.IsNot)
    return isinstance(test, ast.Attribute) and test.attr == "requires_grad"


def _asks_for_no_gradient(test: ast.expr) -> bool:
    """`p.grad is None`, `not p.requires_grad`."""
    if isinstance(test, ast.Compare):
        return last_name(test.left) == _GRADIENT and isinstance(test.ops[0], ast.Is)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _asks_for_gradient(test.operand)


def _walks_parameters(iterable: ast.expr) -> bool:
    """`model.parameters()`, `group["params"]`, and `self.param_groups`, each of which has some."""
    if isinstance(iterable, ast.Call):
        return last_name(iterable.func) in _GIVE_PARAMETERS
    if last_name(iterable) == _GROUPS:
        return True
    held = iterable.slice if isinstance(iterable, ast.Subscript) else None
    return isinstance(held, ast.Constant) and held.value in _HOLD_PARAMETERS


def _always_follows(model: Model, start: ast.stmt, loop: ast.For) -> bool:
    """Whether the loop runs whenever the sum has begun: between the two are but loops over groups of parameters."""
    within = set(map(id, model.place_of(start).around()))
    between = [each for each in model.place_of(loop).around() if id(each) not in within]
    inside = all(isinstance(each, ast.For) and last_name(each.iter) == _GROUPS for each in between)
    around = {id(each) for each in model.place_of(loop).around()}
    return inside and start.lineno < loop.lineno and within <= around


def _ends_before(loop: ast.For, node: ast.Name) -> bool:
    return (loop.end_lineno or loop.lineno) < node.lineno
