"""Whether an expression is proven to be a tensor by how it was made or is used, not only by its source.

Batches and outputs also hold numbers and strings, and results computed from them are tensors only if these are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.arguments import passed
from torchperf_lint.idioms.sync.sums import terms_of_sum
from torchperf_lint.knowledge.torch_api import GIVES_TENSOR, ONLY_TENSORS_HAVE
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name, names_in, names_sent_backward

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

    _Shows = Callable[[Model, FunctionInfo, ast.expr, int], bool]

_NOT_OF_LISTS = (ast.FloorDiv, ast.Div, ast.Sub, ast.Mod, ast.Pow)
_GIVE_WHAT_THEY_GET = ("builtins.max", "builtins.min", "builtins.sum", "builtins.abs")


def element_in(node: ast.expr) -> ast.expr:
    """An element of a literal: `x > 0` of `(x > 0 for x in xs)`, `a` of `[a, b]`; else the whole."""
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return node.elt
    return node.elts[0] if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and node.elts else node


def is_shown(model: Model, function: FunctionInfo, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression in the function is proven to be a tensor; its value must be one, too."""
    value = model.value_in(function, node)
    if value.kind not in (Kind.TENSOR, Kind.PYTREE) or depth > bounds.MOST_TO_SHOWN:
        return False
    if value.mixed:
        return _is_shown_sum(model, function, node, depth)
    if isinstance(node, ast.Name):
        return _is_shown_name(model, function, node.id, depth)
    if value.kind is Kind.PYTREE:
        return False
    if isinstance(node, ast.Compare):
        return any(is_shown(model, function, side, depth + 1) for side in (node.left, *node.comparators))
    if isinstance(node, ast.BinOp):
        return any(is_shown(model, function, side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return is_shown(model, function, node.operand, depth + 1)
    if isinstance(node, ast.IfExp):
        return all(is_shown(model, function, side, depth + 1) for side in (node.body, node.orelse))
    if isinstance(node, ast.Subscript):
        return is_shown(model, function, node.value, depth + 1)
    if isinstance(node, ast.Attribute):
        return node.attr == "loss" or value.ref == "torch.nn.Parameter" or _is_field(model, function, node, depth)
    return isinstance(node, ast.Call) and _is_shown_call(model, function, node, depth)


def is_part_shown(model: Model, function: FunctionInfo, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression on the device is a part of a tensor if it is a number: `lengths[i]`, where they were moved.

    Python takes it as a number, so it is no batch, which `lengths.to(device)` alone may be.
    """
    whole = node
    while isinstance(node, ast.Subscript):
        if model.value_in(function, node.slice).kind is Kind.STRING:
            return is_shown(model, function, whole)  # `batch["count"]` may be a number that no move has changed
        node = node.value
    if is_shown(model, function, node) or _moves(node):
        return True
    if isinstance(node, ast.BinOp) and depth <= bounds.MOST_TO_SHOWN:
        return any(is_part_shown(model, function, side, depth + 1) for side in (node.left, node.right))
    if not isinstance(node, ast.Name) or depth > bounds.MOST_TO_SHOWN:
        return False
    if any(map(_moves, (*model.bindings(function, node.id), *_bound_side_by_side(function, node.id)))):
        return True
    walked = _walked(function, node.id)
    if walked and len(walked) == _times_stored(function, node.id):
        return all(
            _is_reckoned(model, function, each) or is_part_shown(model, function, each, depth + 1) for each in walked
        )
    return node.id in function.parameter_names and _is_given(model, function, node.id, is_part_shown, depth)


def _is_reckoned(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether what is walked comes from a division or a difference, as no list does: `lengths // 2`."""
    made = model.only_binding(function, node.id) if isinstance(node, ast.Name) else node
    while isinstance(made, ast.BinOp):
        if isinstance(made.op, _NOT_OF_LISTS):
            return True
        made = made.left
    return False


def _moves(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")


def _is_shown_sum(model: Model, function: FunctionInfo, node: ast.expr, depth: int) -> bool:
    """Whether it is computed from a sum over parameters that was a number before, and is a tensor after the loop."""
    if isinstance(node, ast.Name):
        terms = terms_of_sum(model, function, node)
        return bool(terms) and all(is_shown(model, function, each, depth + 1) for each in terms)
    sides = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    sides += [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return any(is_shown(model, function, each, depth + 1) for each in sides)


def _is_field(model: Model, function: FunctionInfo, node: ast.Attribute, depth: int) -> bool:
    return node.attr in ("data", "grad", "T", "mT", "real") and is_shown(model, function, node.value, depth + 1)


def _is_shown_call(model: Model, function: FunctionInfo, node: ast.Call, depth: int) -> bool:
    callee = model.value_in(function, node.func)
    ref = callee.ref or ""
    if callee.function is not None:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        tensors = [each for each in given if model.value_in(function, each).holds_tensors]
        return bool(tensors) and all(is_shown(model, function, each, depth + 1) for each in tensors)
    if ref in _GIVE_WHAT_THEY_GET:
        return any(is_shown(model, function, element_in(each), depth + 1) for each in node.args)
    if callee.kind is Kind.LIBRARY:
        return ref.startswith("torch.")
    if callee.kind is Kind.MODULE:
        return ref == "criterion" or ref.startswith("torch.nn.")
    if not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in GIVES_TENSOR or is_shown(model, function, node.func.value, depth + 1)


def _is_shown_name(model: Model, function: FunctionInfo, name: str, depth: int) -> bool:
    if name in names_sent_backward(function) or name in _used_as_tensors(model, function):
        return True
    if not model.has(function):
        return False
    if name in function.parameter_names:
        return _is_given(model, function, name, is_shown, depth)
    # `n = max(n, 1)` does not change the kind of n.
    new = [value for value in model.all_bindings(function, name) if name not in names_in(value)]
    if new:
        return all(is_shown(model, function, value, depth + 1) for value in new)
    walked = _walked(function, name)
    if walked and len(walked) == _times_stored(function, name):
        return all(is_shown(model, function, each, depth + 1) for each in walked)
    unpacked, side_by_side = _unpacked(function, name), _bound_side_by_side(function, name)
    bound = [*model.bindings(function, name), *side_by_side]
    return (
        bool(unpacked or side_by_side)
        and len(unpacked) + len(bound) == function.bound_names.count(name)
        and not model.may_be_rebound(name)
        and all(_gives_tensors(model, function, value, depth + 1) for value in unpacked)
        and all(_is_none(value) or is_shown(model, function, value, depth + 1) for value in bound)
    )


def _is_given(model: Model, function: FunctionInfo, name: str, shows: _Shows, depth: int) -> bool:
    """Whether every known call of the function hands it a shown tensor under this parameter, which keeps it."""
    calls = model.callers(function) if model.bound_once(function, name) else ()
    for record in calls:
        given = passed(record.call, function, name)
        if given is None or not shows(model.home(record.function), record.function, given, depth + 1):
            return False
    return bool(calls)


def _walked(function: FunctionInfo, name: str) -> list[ast.expr]:
    """What loops and comprehensions walk over to bind the name: `ids` in `for token in ids`, `enumerate(ids)`."""
    loops = [node for node in function.nodes if isinstance(node, (ast.For, ast.comprehension))]
    pairs = [pair for loop in loops for pair in _pairs(loop.target, loop.iter)]
    return [over for part, over in pairs if isinstance(part, ast.Name) and part.id == name]


def _pairs(target: ast.expr, over: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of a loop, each with what it walks over."""
    if not isinstance(target, ast.Tuple):
        return [(target, over)]
    if isinstance(over, ast.Call) and dotted(over.func) == "enumerate" and over.args and len(target.elts) > 1:
        return _pairs(target.elts[1], over.args[0])
    is_zip = isinstance(over, ast.Call) and dotted(over.func) == "zip"
    return list(zip(target.elts, over.args, strict=False)) if is_zip else []  # type: ignore[attr-defined]


def _times_stored(function: FunctionInfo, name: str) -> int:
    names = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == name]
    return sum(isinstance(node.ctx, ast.Store) for node in names)


def _unpacked(function: FunctionInfo, name: str) -> list[ast.Call]:
    """The calls whose results are unpacked to the name: `values, places = x.max(dim=1)`."""
    return [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Tuple)
        for target in node.targets[0].elts
        if isinstance(target, ast.Name) and target.id == name
    ]


def _bound_side_by_side(function: FunctionInfo, name: str) -> list[ast.expr]:
    """What a tuple binds to the name: `xs[i]` in `x, total = xs[i], 0.0`."""
    assigned = (node for node in function.nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple))
    pairs = (
        pair
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in target.elts)
        for pair in zip(target.elts, node.value.elts, strict=False)  # type: ignore[attr-defined]
    )
    return [value for part, value in pairs if isinstance(part, ast.Name) and part.id == name]


def _gives_tensors(model: Model, function: FunctionInfo, node: ast.Call, depth: int) -> bool:
    """Whether the parts of what a call returns are shown: those of a function of torch, or of a tensor's method."""
    callee = model.value_in(function, node.func)
    if callee.kind is Kind.LIBRARY:
        return (callee.ref or "").startswith("torch.")
    return isinstance(node.func, ast.Attribute) and is_shown(model, function, node.func.value, depth + 1)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _used_as_tensors(model: Model, function: FunctionInfo) -> frozenset[str]:
    """The names that the function uses as only tensors can be used, and parameters annotated as tensors."""
    return model.remember(("used_as_tensors", function), lambda: _find_used(function))


def _find_used(function: FunctionInfo) -> frozenset[str]:
    found, asked = set(), set()
    for node in function.nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in ("isinstance", "is_tensor") and node.args:
            asked.update(names_in(node.args[0]))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in ONLY_TENSORS_HAVE:
            found.add(node.value.id)
        elif isinstance(node, ast.arg) and node.annotation is not None and last_name(node.annotation) == "Tensor":
            found.add(node.arg)
    return frozenset(found - asked)
