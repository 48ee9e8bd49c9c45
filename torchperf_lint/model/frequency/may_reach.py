"""Reachability: whether a function may be hot by the names of calls in the program, before any value is computed.

Like `entry_points.py`, which knows one file only, it errs on one side: a function that is not reachable here cannot
be hot by any evidence that `execution.py` accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, implicit
from torchperf_lint.model.project.dependencies import Node
from torchperf_lint.model.syntax import finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_lint.model.domain.interfaces import FrequencyQuestions
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import FunctionInfo

Reachability = dict[tuple[int, str], tuple[bool, Node]]
"""The functions of a file, by line and name: whether each may be hot, and the dependencies of that result."""


def may_be_hot(frequency: FrequencyQuestions, function: FunctionInfo) -> bool:
    """Whether a loop or a hook may lead to the function through calls that match it by name."""
    recorder = frequency.recorder
    known = frequency.home(function).reachability.get(function.place)
    if known is not None:
        recorder.here.add(known[1])
        return known[0]
    (hot, functions), dependencies = recorder.followed(lambda: _search(frequency, function))
    for each in functions:
        frequency.home(each).reachability[each.place] = hot, dependencies
    return hot


def _search(frequency: FrequencyQuestions, function: FunctionInfo) -> tuple[bool, Iterable[FunctionInfo]]:
    """Whether it may be hot, and the functions that this result holds for."""
    pending = [function]
    calls: dict[FunctionInfo, FunctionInfo | None] = {function: None}  # each with its callee on the path to this one
    while pending:
        current = pending.pop()
        home = frequency.home(current)
        known = home.reachability.get(current.place)
        if known is not None:
            frequency.recorder.here.add(known[1])
            if not known[0]:
                continue
        if known is not None or home.own_hot_path(current) is not None:
            return True, _path(current, calls)
        if len(calls) > bounds.MOST_FUNCTIONS_UP:
            return True, (function,)
        for record in callers(home, current):
            there = frequency.home(record.function)
            if not there.entry_points.may_be_hot(record.statement):
                continue
            if there.entry_points.in_loop(record.statement):
                return True, _path(current, calls)
            for caller in _made_by(record):
                if caller not in calls:
                    calls[caller] = current
                    pending.append(caller)
    return False, calls


def _made_by(record: CallSite) -> Iterator[FunctionInfo]:
    """The function that makes the call, and the lambda around it."""
    yield record.function
    if record.statement in record.function.index.lambdas:
        around = finding.lambda_around(record.function.index, record.node, record.statement)
        if around is not None:
            yield around


def _path(function: FunctionInfo | None, calls: Mapping[FunctionInfo, FunctionInfo | None]) -> Iterator[FunctionInfo]:
    while function is not None:
        yield function
        function = calls[function]


def callers(home: FrequencyQuestions, function: FunctionInfo) -> list[CallSite]:
    """The calls that may reach the function. If it is passed on, they are found by values, otherwise by name."""
    if function.is_lambda:
        return list(calling.possible_callers(home.inference, function))
    if calling.is_given_away(home.inference, function):
        return [call.record for call in home.calls_of(function)]
    by_name = calling.callers_by_name(home.inference, function, in_part=True)
    found: list[CallSite]
    found = [record for record in by_name if not calling.is_another(home.inference, record, function)]
    found += implicit.implicit_calls(home.inference, function)
    if calling.may_be_value(home.inference, function):
        found += (flow.record for flow in home.inference.flows(function))
    return found
