"""Losses that are reduced across processes only for display, and gradients that are reduced too early."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo, Place

_KEEPS_LOSS = frozenset("detach clone data repeat expand mean sum unsqueeze view reshape float half item".split())


def reduced_loss(model: Model, site: Site, *, in_place: bool) -> str | None:
    """The loss whose copy the collective at the site reduces, if backward has run on the loss itself.

    An in-place collective counts only on a copy, or after the backward pass.
    """
    call, function = model.ast_of(site.node), model.function_of(site)
    if not isinstance(call, ast.Call) or not call.args:
        return None
    sent = _sent_backward(function)
    root, detached = _root(call.args[0])
    if root is not None and root not in sent and not detached:
        bound = [_root(each) for each in model.bindings(function, root)]
        roots = {each for each, _ in bound}
        if len(roots) != 1 or not all(copied for _, copied in bound):
            return None
        root, detached = roots.pop(), True
    row = None if root is None else sent.get(root)
    if row is None or (in_place and not detached and call.lineno < row):
        return None
    return root


def _sent_backward(function: FunctionInfo) -> dict[str, int]:
    """The names that the function calls backward on, each with the last line that does."""
    found: dict[str, int] = {}
    for record in function.calls_made:
        func = record.call.func
        if isinstance(func, ast.Attribute) and func.attr in ("backward", "manual_backward"):
            inner = func.value.args[0] if isinstance(func.value, ast.Call) and func.value.args else func.value
            for each in (inner, *record.call.args[:1]):
                name = dotted(each)
                if name is not None:
                    found[name] = max(record.call.lineno, found.get(name, 0))
    return found


def _root(node: ast.expr) -> tuple[str | None, bool]:
    """`loss` of `loss.detach().clone()`, and whether it is detached or copied in between."""
    copied = False
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS_LOSS:
            copied = copied or node.func.attr in ("detach", "clone", "repeat")
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            copied, node = True, node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
            copied, node = True, node.left
        else:
            return dotted(node), copied


def reduces_too_often(model: Model, site: Site) -> tuple[Because, ...] | None:
    """Evidence that each `backward()` at the site reduces gradients that are used only after several of them."""
    place = model.place(site.node)
    function = place.function
    loop = next((each for each in place.loops() if isinstance(each, (ast.For, ast.While))), None)
    if loop is None:
        return None
    step = _later_step(model, place, loop)
    wrapped = None if step is None else _wrapped_here(model, function, loop)
    if step is None or wrapped is None:
        return None
    return (wrapped, Because(step, "the optimizer takes a step only after several passes", function.path))


def _later_step(model: Model, place: Place, loop: ast.For | ast.While) -> int | None:
    """The line of the loop's only optimizer step, if a remainder test guards it and not `backward`."""
    steps = []
    function = place.function
    for record in function.calls_made:
        func = record.call.func
        if isinstance(func, ast.Attribute) and func.attr == "step":
            kind = model.value_in(function, func.value).kind
            if kind in (Kind.OPTIMIZER, Kind.SCALER) and loop in record.place.loops()[:1]:
                steps.append(record)
    tests = {id(test): test for record in steps for test in record.place.tests(loop)}
    own = {id(test) for test in place.tests(loop)}
    counted = [test for key, test in tests.items() if key not in own and _is_remainder(test)]
    every = all(any(_is_remainder(test) for test in each.place.tests(loop)) for each in steps)
    return steps[0].call.lineno if steps and counted and every else None


def _is_remainder(test: ast.expr) -> bool:
    """`(i + 1) % steps == 0`, alone or with another condition."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and not (isinstance(node.right, ast.Constant) and node.right.value == 1)
        for node in subtree(test)
    )


def _wrapped_here(model: Model, function: FunctionInfo, loop: ast.stmt) -> Because | None:
    """Where the model that the loop calls is wrapped: in the function, or in a caller that passes it."""
    called = {record.call.func.id for record in function.calls_made if isinstance(record.call.func, ast.Name)}
    for record in model.calls_named("DistributedDataParallel"):
        if model.callee(record).ref not in _WRAPPERS:
            continue
        assigned = record.statement.targets[0] if isinstance(record.statement, ast.Assign) else None
        name = assigned.id if isinstance(assigned, ast.Name) else None
        if name is None:
            continue
        given = {name} if record.function is function else _received_as(model, function, record.function, name)
        if given & called:
            return Because(record.call.lineno, "the model is wrapped here", function.path)
    return None


_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


def _received_as(model: Model, function: FunctionInfo, caller: FunctionInfo, name: str) -> set[str]:
    """The parameters of the function that receive the name from the caller."""
    found = set()
    for record in caller.calls_made:
        if last_name(record.call.func) == function.name and function.cls is None:
            pairs = [*zip(function.parameter_names, record.call.args, strict=False)]
            pairs += [(each.arg, each.value) for each in record.call.keywords if each.arg]
            found |= {parameter for parameter, given in pairs if dotted(given) == name}
    return found
