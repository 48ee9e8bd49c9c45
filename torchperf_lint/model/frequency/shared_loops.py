"""Whether one loop runs two functions, such as the one that sets a flag and the one that resets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.frequency.may_reach import callers

if TYPE_CHECKING:
    import ast

    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.domain.interfaces import FrequencyQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo


def may_share_loop(
    frequency: FrequencyQuestions, statement: ast.stmt, other: FunctionInfo, other_statement: ast.stmt
) -> bool:
    """Whether a loop, other than one over epochs, may run both a statement of this file and one of another function.

    True as well if no loop around the statement is seen, or if code that is not seen may call its function.
    """
    function = frequency.inference.index.places[statement].function
    own = _loops_around(frequency, function, statement)
    others = _loops_around(frequency.home(other), other, other_statement) if own else None
    if not own or others is None or None in own:
        return True
    return not own.isdisjoint(others)


def _loops_around(
    frequency: FrequencyQuestions, function: FunctionInfo, statement: ast.stmt
) -> set[Loop | None] | None:
    """The loops around a statement and around all calls that lead to it; None among them for one that is not seen.

    That may be a framework's, or a loop around calls of the function, or of a method that leads to it by no loop, if
    nothing is seen to call them. The result is None if the callers are too many, or if a generator or a function that
    is handed over leads there.
    """
    found: set[Loop | None] = set(_around(frequency, statement, function))
    passed = {function}
    pending = [function]
    outside_loops = set() if function.is_module else {function}
    uncalled: set[FunctionInfo] = set()
    while pending:
        current = pending.pop()
        home = frequency.home(current)
        records = callers(home, current)
        if all(each.function is current for each in records):
            uncalled.add(current)
        if current.is_generator or current.name in current.index.handed:  # other loops run it beside their own passes
            return None
        if home.own_hot_path(current) is not None:
            found.add(None)
        for record in records:
            around = _around(frequency.home(record.function), record.statement, record.function)
            found.update(around)
            if not around and record.function.cls is not None:
                outside_loops.add(record.function)
            if record.function not in passed:
                passed.add(record.function)
                pending.append(record.function)
        if len(passed) > bounds.MOST_FUNCTIONS_UP:
            return None
    return found if outside_loops.isdisjoint(uncalled) else {*found, None}


def _around(home: FrequencyQuestions, statement: ast.stmt, function: FunctionInfo) -> list[Loop]:
    around = home.loops.enclosing(statement)
    return [each for each in around if home.loops.classify(each, function).kind is not LoopKind.EPOCH]
