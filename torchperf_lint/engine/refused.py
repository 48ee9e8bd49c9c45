"""Computations beside a site that torch refuses: of a host tensor and one on the device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import one_device
from torchperf_lint.knowledge.launches import SWALLOW
from torchperf_lint.model.domain.values import Device
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import COMPREHENSIONS, children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo, Place

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_NOT_ALWAYS = (*COMPREHENSIONS, ast.Lambda, ast.IfExp)


def refused(way: Sequence[Link]) -> Because | None:
    """A row that runs whenever the way is taken, and that raises if the data is on the device."""
    below: FunctionInfo | None = None
    for link in way:
        model, place = link.model, link.model.place_of(link.statement)
        if below is not None and [each.call for each in model.home(below).callers(below)] != [link.node]:
            return None
        below = place.function
        mixed = next(filter(None, (_refused_in(model, below, each) for each in _always(place))), None)
        if mixed is not None:
            text = f"torch refuses `{ast.unparse(mixed)}` where the data is on the device: a part of it is on the host"
            return Because(mixed.lineno, text, None if model is way[0].model else model.path)
    return None


def _always(place: Place) -> Iterator[ast.stmt]:
    """The statements of the function that run before the place whenever it is reached, and those that follow it."""
    left = False
    yield place.statement
    for each in place.outwards():
        yield from each.before
        left = left or (each.field == "body" and _catches(each.parent))
        for statement in () if left else each.block[each.position :]:
            if statement is not each.statement:
                yield statement
            if any(isinstance(node, _LEAVES) for node in subtree(statement)):
                left = True
                break


def _catches(parent: ast.stmt | None) -> bool:
    """Whether an error in the statement's body may end there."""
    if isinstance(parent, (ast.With, ast.AsyncWith)):
        calls = (each.context_expr for each in parent.items)
        return any(last_name(each.func) in SWALLOW for each in calls if isinstance(each, ast.Call))
    return isinstance(parent, ast.Try) and bool(parent.handlers)


def _refused_in(model: Model, function: FunctionInfo, statement: ast.stmt) -> ast.expr | None:
    """The expression of a statement that joins what is on two devices."""
    return model.remember(
        ("refused", statement),
        lambda: next((each for each in _computed(statement) if _is_refused(model, function, each)), None),
    )


def _computed(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement always evaluates, without those of nested statements."""
    pending = [each for each in children(statement) if not isinstance(each, (ast.stmt, ast.excepthandler))]
    for node in pending:
        if isinstance(node, ast.expr):
            yield node
        if isinstance(node, ast.BoolOp):
            pending.append(node.values[0])
        elif not isinstance(node, _NOT_ALWAYS):
            pending += children(node)


def _is_refused(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [each for each in indices if not isinstance(each, (ast.Slice, ast.Constant))]
        # torch reads an index without dimensions on the host, as a number.
        return (
            bool(parts)
            and _is_on_host(model.value_in(function, node.value))
            and any(_is_on_device(each) and _is_no_number(each) for each in _values(model, function, parts))
        )
    values = list(_values(model, function, _joined(model, function, node)))
    return any(map(_is_on_device, values)) and any(_is_on_host(each) and _has_dimensions(each) for each in values)


def _joined(model: Model, function: FunctionInfo, node: ast.expr) -> Sequence[ast.expr]:
    """The tensors that one operation computes with."""
    if isinstance(node, ast.BinOp):
        return (node.left, node.right)
    if isinstance(node, ast.Compare) and not any(isinstance(op, (ast.Is, ast.IsNot, ast.In)) for op in node.ops):
        return (node.left, *node.comparators)
    if not isinstance(node, ast.Call) or last_name(node.func) not in one_device.JOINING:
        return ()
    listed = node.args[0].elts if node.args and isinstance(node.args[0], (ast.List, ast.Tuple)) else node.args
    if model.value_in(function, node.func).ref == f"torch.{last_name(node.func)}":
        return listed
    if isinstance(node.func, ast.Attribute) and model.value_in(function, node.func.value).is_tensor:
        return (node.func.value, *node.args)
    return ()


def _values(model: Model, function: FunctionInfo, nodes: Iterable[ast.expr]) -> Iterator[Value]:
    return (model.value_in(function, each) for each in nodes)


def _is_on_device(value: Value) -> bool:
    return value.holds_tensors and not value.mixed and value.device.on_accelerator


def _is_on_host(value: Value) -> bool:
    return value.is_tensor and value.device is Device.CPU


def _has_dimensions(value: Value) -> bool:
    return value.vector is True or value.scalar is False


def _is_no_number(value: Value) -> bool:
    return value.is_tensor and (_has_dimensions(value) or value.dtype == "bool")
