"""All calls that may reach a function: by its name, as a value, without a call expression, by those who take it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import hooks
from torchperf_lint.model.callgraph import calling, implicit
from torchperf_lint.model.domain.flows import PossibleCall
from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.flows import Handing
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_CACHING = frozenset({"lru_cache", "cache", "cached_property"})


def of(inference: ValueQuestions, function: FunctionInfo, handed: tuple[Handing, ...] = ()) -> Iterator[PossibleCall]:
    """Calls that may reach the function, each with an explanation if it is not direct (`step(closure)`).

    With `handed`, only the call that hands over what the function calls.
    """
    if handed:
        yield PossibleCall(handed[0].record, handed=handed[1:])
        return
    if "dummy" in function.name.lower():
        return  # a substitute for a missing batch: looked up in every step, needed hardly ever
    decorators = [each.func if isinstance(each, ast.Call) else each for each in function.decorators]
    if any(last_name(each) in _CACHING for each in decorators):
        return  # called in every step, but run only for new arguments
    flows = [each for each in calling.as_value(inference, function) if each.record.function is not function]
    for record in calling.possible_callers(inference, function, in_part=True):
        if record.function is not function:
            ways = dict.fromkeys(flow.handed for flow in flows if flow.record is record and not flow.shifted)
            if calling.may_mean_by_name(record, function):
                ways.clear()
            yield from (PossibleCall(record, handed=way) for way in ways or ((),))
    for use in implicit.implicit_calls(inference, function):
        if use.function is not function:
            yield PossibleCall(use, implicit.says(function, use))
    for flow in flows:
        if flow.shifted:
            yield PossibleCall(flow.record, f"{function.shown_name} is called here in every step", flow.handed)
    for record in calling.handed_over(inference, function, calling.CALL_AT_ONCE):
        taker = last_name(record.call.func)
        if taker == "step":
            yield PossibleCall(record, f"`{function.name}` is the optimizer's closure")
        elif taker in hooks.CALLERS_OF_ARGUMENTS:
            yield PossibleCall(record, f"`{function.name}` is handed to `{taker}` here in every step")
