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


def may_share_loop(frequency: FrequencyQuestions, statement: ast.stmt, other: FunctionInfo, row: ast.stmt) -> bool:
    """Whether a loop, other than one over epochs, may run both a statement of this file and a row of another function.

    So it may where who calls the statement's function is not seen, or no loop is.
    """
    function = frequency.inference.index.places[statement].function
    own = _loops_around(frequency, function, statement)
    others = _loops_around(frequency.home(other), other, row) if own else None
    if not own or others is None or None in own:
        return True
    return not own.isdisjoint(others)


def _loops_around(frequency: FrequencyQuestions, function: FunctionInfo, row: ast.stmt) -> set[Loop | None] | None:
    """The loops around a row and around all calls that lead to it; None among them for a framework that calls it.

    None if the callers are too many.
    """
    found: set[Loop | None] = set(_around(frequency, row, function))
    passed = {function}
    pending = [function]
    while pending:
        current = pending.pop()
        home = frequency.home(current)
        if home.own_hot_path(current) is not None:
            found.add(None)
        for record in callers(home, current):
            found.update(_around(frequency.home(record.function), record.statement, record.function))
            if record.function not in passed:
                passed.add(record.function)
                pending.append(record.function)
        if len(passed) > bounds.MOST_FUNCTIONS_UP:
            return None
    return found


def _around(home: FrequencyQuestions, row: ast.stmt, function: FunctionInfo) -> list[Loop]:
    around = home.loops.enclosing(row)
    return [each for each in around if home.loops.classify(each, function).kind is not LoopKind.EPOCH]
