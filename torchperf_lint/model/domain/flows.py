"""The ends of flows of values: calls of functions that came there as values, and the calls that handed them over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.grades import Grade

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


class Handing(NamedTuple):
    """A call that hands the value over as an argument, and the function that takes it as a parameter."""

    record: CallRecord
    taker: FunctionInfo


class Flow(NamedTuple):
    """A call that uses the value; `shifted` says that its arguments are not all that the function gets.

    `handed` leads outwards from the function around the call: the calls that must have been made for the value to be
    in a parameter there. It is empty if the value is there in every call, or if the calls are not known.
    `is_guess` says that the value is looked up by a name of which a part is not shown.
    """

    record: CallRecord
    shifted: bool
    handed: tuple[Handing, ...] = ()
    grade: Grade = Grade.PROVEN
    is_guess: bool = False


class PossibleCall(NamedTuple):
    """A call that may mean a function; `says` explains it if it is not direct, `handed` is as in `Flow`."""

    record: CallSite
    says: str = ""
    handed: tuple[Handing, ...] = ()


def still_handed(handed: tuple[Handing, ...], function: FunctionInfo) -> tuple[Handing, ...]:
    """The calls that handed the value over to this very function; none for one nested in it, which may run later."""
    return handed if handed and handed[0].taker is function else ()
