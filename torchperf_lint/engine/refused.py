"""Computations beside a site that torch refuses: of a host tensor and one on the device."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import one_device
from torchperf_lint.knowledge.launches import SWALLOW
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import COMPREHENSIONS, children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import Model
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Place

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Yield, ast.YieldFrom, ast.Await)
_NOT_ALWAYS = (*COMPREHENSIONS, ast.Lambda, ast.IfExp)
_OBJECTS = (Kind.MODULE, Kind.INSTANCE)
_MOVERS = ("_apply", "cuda", "to")
_NO_MATHS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

_FARTHEST = 20
"""The blocks around a place, and the statements of each before and behind it, that are looked at."""


def refused(way: Sequence[Link]) -> Because | None:
    """A row that runs whenever the way is taken, and that raises if the data is on the device."""
    below: FunctionInfo | None = None
    for at, link in enumerate(way):
        model, place = link.model, link.model.place_of(link.statement)
        if below is not None and [each.call for each in model.home(below).callers(below)] != [link.node]:
            return None
        below = place.function
        for statement, comes_first in _always(model, place):
            mixed = _refused_in(model, below, statement)
            if mixed is not None and (comes_first or not _is_caught_above(link, way[at + 1 :])):
                says = (
                    f"torch refuses `{ast.unparse(mixed)}` where the data is on the device: a part of it is on the host"
                )
                return Because(mixed.lineno, says, None if model is way[0].model else model.path)
    return None


def _always(model: Model, place: Place) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements of the function that run whenever the place is reached, and whether they come before it."""
    left = _is_caught(place)
    leaving = model.remember(("leaving", place.function), lambda: _leaving(place.function))
    if not left:
        yield place.statement, False
    for each in itertools.islice(place.outwards(), _FARTHEST):
        yield from ((statement, True) for statement in each.before[-_FARTHEST:])
        for statement in () if left else each.block[each.position : each.position + _FARTHEST]:
            if statement is not each.statement:
                yield statement, False
            if statement in leaving:
                left = True
                break


def _leaving(function: FunctionInfo) -> set[ast.AST]:
    """The parts of the function that may leave it, or the loop around them."""
    found: set[ast.AST] = set()
    for node in function.nodes:
        each: ast.AST | None = node if isinstance(node, _LEAVES) else None
        while each is not None and each not in found:
            found.add(each)
            each = function.parent_of(each)
    return found


def _is_caught_above(link: Link, above: Sequence[Link]) -> bool:
    """Whether an error that leaves the function may end in a caller, behind the place that has then been reached."""
    function = link.model.place_of(link.statement).function
    places = [each.model.place_of(each.statement) for each in above]
    return any(map(_is_caught, (*places, *(each.place for each in link.model.callers(function)))))


def _is_caught(place: Place) -> bool:
    """Whether an error of the statement may end in its function."""
    return any(each.field == "body" and _catches(each.parent) for each in place.outwards())


def _catches(parent: ast.stmt | None) -> bool:
    """Whether an error in the statement's body may end there."""
    if isinstance(parent, (ast.With, ast.AsyncWith)):
        calls = (each.context_expr for each in parent.items)
        return any(last_name(each.func) in SWALLOW for each in calls if isinstance(each, ast.Call))
    return bool(getattr(parent, "handlers", ()))  # `try` and `except*`


def _refused_in(model: Model, function: FunctionInfo, statement: ast.stmt) -> ast.expr | None:
    """The expression of a statement that joins what is on two devices."""
    return model.remember(
        ("refused", statement),
        lambda: next((each for each in _computed(statement) if _is_refused(model, function, each)), None),
    )


def _computed(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions that a statement always evaluates, without those of nested statements."""
    pending: list[ast.AST] = [statement.test] if isinstance(statement, ast.Assert) else children(statement)
    for node in pending:
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            continue
        if isinstance(node, ast.expr):
            yield node
        if isinstance(node, ast.BoolOp):
            pending.append(node.values[0])
        elif isinstance(node, ast.Compare):
            pending += (node.left, node.comparators[0])
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
            and _stays_there(model, function, node.value)
            and any(_is_on_device(each) and _is_no_number(each) for each in _values(model, function, parts))
        )
    joined = _joined(model, function, node)
    values = list(_values(model, function, joined))
    return any(map(_is_on_device, values)) and any(
        _is_on_host(value) and _has_dimensions(value) and _stays_there(model, function, part)
        for part, value in zip(joined, values, strict=True)
    )


def _joined(model: Model, function: FunctionInfo, node: ast.expr) -> Sequence[ast.expr]:
    """The tensors that one operation computes with."""
    if isinstance(node, ast.BinOp):
        return (node.left, node.right)
    if isinstance(node, ast.Compare) and not isinstance(node.ops[0], _NO_MATHS):
        return (node.left, node.comparators[0])
    if not isinstance(node, ast.Call) or last_name(node.func) not in one_device.JOINING:
        return ()
    given = [*node.args, *(each.value for each in node.keywords)]
    if model.value_in(function, node.func).ref == f"torch.{last_name(node.func)}":
        return [part for each in given for part in (each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each])]
    if isinstance(node.func, ast.Attribute) and model.value_in(function, node.func.value).is_tensor:
        return (node.func.value, *given)
    return ()


def _values(model: Model, function: FunctionInfo, nodes: Iterable[ast.expr]) -> Iterator[Value]:
    return (model.value_in(function, each) for each in nodes)


def _stays_there(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether nothing moves an attribute that the expression reads, also by a name: only constructors set them."""
    pending, seen = [node], set[str]()
    for part in pending:
        for each in subtree(part):
            if isinstance(each, ast.Name) and each.id not in seen:
                seen.add(each.id)
                pending += model.bindings(function, each.id)
            elif isinstance(each, ast.Attribute) and model.value_in(function, each.value).kind in _OBJECTS:
                is_own = isinstance(each.value, ast.Name) and each.value.id == function.self_name
                if not is_own or function.cls is None or not _is_only_made(model, function.cls, each.attr):
                    return False
    return True


def _is_only_made(model: Model, cls: ClassInfo, name: str) -> bool:
    """Whether nothing but a constructor sets the attribute, nor may a class or a file that moves objects by itself."""
    if any(model.method(cls, mover) is not None for mover in _MOVERS):
        return False
    home = model.home(cls)
    if home.remember("sets by computed names", lambda: any(map(_sets_by_computed_names, home.with_neighbours))):
        return False
    return model.stored_by_constructor(cls, name) is not None and not model.is_set_elsewhere(cls, name)


def _sets_by_computed_names(model: Model) -> bool:
    """`setattr(module, name, value)`, `module.__dict__.update(values)`, `vars(module).update(values)`."""
    setting = (each.call.args[1:2] for each in model.calls_named("setattr"))
    updated = (each.call.func for each in model.calls_named("update"))
    return any(not isinstance(name, ast.Constant) for names in setting for name in names) or any(
        isinstance(each, ast.Attribute) and _is_namespace(each.value) for each in updated
    )


def _is_namespace(node: ast.expr) -> bool:
    return last_name(node.func) == "vars" if isinstance(node, ast.Call) else last_name(node) == "__dict__"


def _is_on_device(value: Value) -> bool:
    return value.holds_tensors and not value.mixed and value.device.on_accelerator


def _is_on_host(value: Value) -> bool:
    return value.is_tensor and value.device is Device.CPU


def _has_dimensions(value: Value) -> bool:
    return value.vector is True or value.scalar is False


def _is_no_number(value: Value) -> bool:
    return value.is_tensor and (_has_dimensions(value) or (value.dtype == "bool" and value.scalar is not True))
