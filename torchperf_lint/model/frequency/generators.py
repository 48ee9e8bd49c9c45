"""Generators of the project: loops over one that moves what it yields, and the loops that take what one yields."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.callgraph import implicit
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.frequency.loop_bodies import nexts
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.iterables import walked
from torchperf_lint.syntax.tree import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_YIELDS = (ast.Yield, ast.YieldFrom)


def yielding(function: FunctionInfo) -> set[ast.stmt]:
    """The innermost loops around the function's `yield` expressions."""
    return function.note(("yielding", function), lambda: set(_yielding(function)))


def _yielding(function: FunctionInfo) -> Iterator[ast.stmt]:
    for statement in function.statements if function.is_generator else ():
        if any(isinstance(each, _YIELDS) for each in own_expressions(statement)):
            yield from function.place_of(statement).loops()[:1]


def taking(inference: ValueQuestions, function: FunctionInfo) -> Iterator[tuple[Loop, FunctionInfo]]:
    """The loops that take one item per pass of what a generator yields, each with its function.

    `for x in batches()`, `for x in tqdm(batches())`, `items = batches()` with `for x in items` or `next(items)`, and
    loops over an object whose `__iter__` it is.
    """
    for record in inference.callers(function):
        if record.function is not function:
            yield from ((loop, record.function) for loop in _loops_over(record))
    for use in implicit.iterations(inference, function):
        if isinstance(use.statement, (ast.For, ast.AsyncFor)) and use.function is not function:
            yield use.statement, use.function


def _loops_over(record: CallRecord) -> Iterator[Loop]:
    """The loops of the caller that take the items of what a call makes."""
    function, made = record.function, record.call
    around = record.statement
    if isinstance(around, (ast.For, ast.AsyncFor)) and walked(around.iter) is made:
        yield around
    target = around.targets[0] if isinstance(around, ast.Assign) and len(around.targets) == 1 else None
    if not isinstance(target, ast.Name) or made not in own_expressions(around):
        return
    for loop, owner in finding.loops_in(function):
        walks = owner is function and isinstance(loop, (ast.For, ast.AsyncFor))
        if walks and isinstance(item := walked(loop.iter), ast.Name) and item.id == target.id:  # type: ignore[union-attr]
            yield loop
    for taken, iterator in nexts(function):
        is_it = isinstance(iterator, ast.Name) and iterator.id == target.id
        for loop in taken.place.loops()[:1] if is_it else ():
            if not any(taken.place.tests(loop)):  # else it is not every pass that takes one
                yield loop


def moved_by(inference: ValueQuestions, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> str | None:
    """`for batch in batches(data, device)`: the text of the generator, if its own loop moves what it yields.

    So does `for batch in batches`, where that is what a generator has made. None for another iterable, and for a
    generator of what is on the device already, such as parameters.
    """
    made = walked(loop.iter)
    if isinstance(made, ast.Name) and _is_given_there(inference.frame_value(function, made)):
        return made.id
    generator = inference.frame_value(function, made.func).function if isinstance(made, ast.Call) else None
    if generator is None or not generator.is_generator:
        return None
    item: Value | None = inference.frame_value(function, made)
    while item is not None and item.kind is Kind.CONTAINER:
        item = item.element
    if item is None or not item.device.on_accelerator or not item.holds_tensors:
        return None
    loops = [(each.lineno, each.end_lineno or each.lineno) for each, _ in finding.loops_in(generator)]
    is_moved = any(
        (step.path or function.index.path) == generator.index.path
        and any(first <= step.row <= last for first, last in loops)
        for step in item.because
    )
    return dotted(made.func) if is_moved and isinstance(made, ast.Call) else None


def _is_given_there(items: Value) -> bool:
    """Whether it is the result of a generator, which yields tensors on the device."""
    item: Value | None = items.element if items.kind is Kind.CONTAINER and items.ref == "generator" else None
    while item is not None and item.kind is Kind.CONTAINER:
        item = item.element
    return item is not None and item.device.on_accelerator and item.holds_tensors
