"""The end of a flow of values: a call of a function that came there as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import CallRecord


class Flow(NamedTuple):
    """A call that uses the value; `shifted` says that its arguments are not all that the function gets."""

    record: CallRecord
    shifted: bool
