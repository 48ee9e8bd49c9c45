"""Calls that run in the same pass of a step as a site, whenever the site does, and take seconds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import host_work as host_work_names
from torchperf_lint.knowledge import slow_calls
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Place

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_MOST_CALLS = 2
"""Calls from the pass to the slow call: `save(model)`, then `torch.save(...)` in it."""

_OF_STEP = frozenset({"forward", "__init__", "__call__"})
"""What every step runs takes no seconds."""


class Link(NamedTuple):
    """A part of a statement on the way to a site, the site itself or a call that leads there, in a file's model."""

    model: Model
    statement: ast.stmt
    node: ast.expr | None


def slow_call(model: Model, statement: ast.stmt, node: ast.expr | None) -> CallRecord | None:
    """A call beside a part of a statement that takes seconds: it generates, saves, or goes over a whole loader."""
    function = model.place_of(statement).function
    return _beside(
        model, statement, node, model.remember(("slow calls", function), lambda: _slow_calls(model, function))
    )


def host_work(model: Model, statement: ast.stmt, node: ast.expr | None) -> CallRecord | None:
    """A call beside a part of a statement that works on the host, on the results of a step."""
    function = model.place_of(statement).function
    work = model.remember(("host work", function), lambda: set(_host_work(model, function)))
    return _beside(model, statement, node, work)


def _beside(model: Model, statement: ast.stmt, node: ast.expr | None, calls: set[ast.Call]) -> CallRecord | None:
    """The first of these calls that a pass with the part of a statement runs, outside that part."""
    place = model.place_of(statement)
    inside = set(subtree(node)) if calls and node is not None else set()
    return next(
        (
            record
            for record in (_run(place.function, _of_pass(model, place)) if calls else ())
            if record.call in calls and record.call not in inside
        ),
        None,
    )


def _host_work(model: Model, function: FunctionInfo) -> Iterator[ast.Call]:
    """The calls in the function of what works on the host alone."""
    for record in function.calls_made:
        callee = model.callee(record)
        is_named_so = last_name(record.call.func) in host_work_names.WORKS and callee.function is None
        library = (callee.ref or "").partition(".")[0] if callee.kind is Kind.LIBRARY else ""
        if is_named_so or library in host_work_names.WORKING_LIBRARIES:
            yield record.call


def _slow_calls(model: Model, function: FunctionInfo) -> set[ast.Call]:
    """The calls in the function that take seconds."""
    return {record.call for record in function.calls_made if _leads_to_slow(model, record)}


def _of_pass(model: Model, place: Place) -> Iterator[ast.stmt]:
    """The statements of the pass: around the place, before it, and after it up to where the pass may end early.

    The loop over batches makes the pass; without one, it is a call of the function.
    """
    left = False
    yield place.statement
    for each in place.outwards():
        yield from each.before
        if not left:
            yield from _until_left(each.block[each.position + 1 :])
        left = left or isinstance(each.block[-1], _LEAVES)
        loop = each.parent if each.field == "body" and isinstance(each.parent, _LOOPS) else None
        if loop is not None and model.loop_info(loop).kind is not LoopKind.OTHER:
            return


def _until_left(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block up to the first that may leave it."""
    for statement in block:
        yield statement
        if any(isinstance(node, _LEAVES) for node in subtree(statement)):
            return


def _run(function: FunctionInfo, statements: Iterable[ast.stmt]) -> Iterator[CallRecord]:
    """The calls of the function that run whenever these statements do."""
    records = function.note(("records by call", function), lambda: {each.call: each for each in function.calls_made})
    pending: list[ast.AST] = list(statements)
    for node in pending:
        if isinstance(node, ast.Call) and node in records:
            yield records[node]
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            pending.append(node.test)
        elif isinstance(node, ast.BoolOp):
            pending.append(node.values[0])
        elif isinstance(node, ast.Try):
            pending += node.body
        elif not isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Match)):
            pending += children(node)


def _leads_to_slow(model: Model, record: CallRecord, calls: int = 0) -> bool:
    """Whether the call takes seconds, or runs a function of the project that always makes such a call."""
    if _is_slow(model, record):
        return True
    callee = model.callee(record).function
    if callee is None or callee is record.function or callee.is_generator or callee.name in _OF_STEP:
        return False
    return _walks_loader(model, callee) or (calls < _MOST_CALLS and _always_slow(model, callee, calls + 1))


def _always_slow(model: Model, function: FunctionInfo, calls: int) -> bool:
    """Whether the function, so many calls from the pass, always makes a call that takes seconds."""
    home = model.home(function)
    return home.remember(
        ("always slow", function, calls),
        lambda: any(_leads_to_slow(home, each, calls) for each in _run(function, _until_left(function.body))),
    )


def _is_slow(model: Model, record: CallRecord) -> bool:
    """Whether the call itself takes seconds, by its name: most calls have another one, and are not looked at."""
    call, name = record.call, last_name(record.call.func)
    if any(keyword.arg in slow_calls.COUNTS_OF_PASSES for keyword in call.keywords):
        return model.callee(record).kind is not Kind.LIBRARY
    if name in slow_calls.SLOW_NAMES and model.callee(record).ref in slow_calls.SLOW_FUNCTIONS:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    function = model.callee(record).function if name in slow_calls.SAVERS | slow_calls.GENERATORS else None
    if name in slow_calls.SAVERS:
        return function is None
    if name in slow_calls.GENERATORS and model.value_in(record.function, call.func.value).kind is Kind.MODULE:
        return function is None or _has_loop(function)
    return False


def _has_loop(function: FunctionInfo) -> bool:
    return any(isinstance(each, _LOOPS) for each in function.statements)


def _walks_loader(model: Model, function: FunctionInfo) -> bool:
    """Whether the function goes over a data loader, to its end."""
    home = model.home(function)
    return home.remember(
        ("walks loader", function),
        lambda: any(
            not isinstance(loop.body[-1], _LEAVES) and home.walks_loader(loop) for loop in home.loops_in(function)
        ),
    )
