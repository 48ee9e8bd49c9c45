"""One interpretation of a function: the values of its expressions and of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.syntax.backward import sent_backward

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping

    from torchperf_lint.model.syntax.index import FunctionInfo
    from torchperf_lint.model.syntax.slices import Slice

Env = dict[str, Value]
"""Names and dotted paths -> their values at one program point."""


class Frame:
    """One interpretation of a function: the value of every expression in it, and of what it returns and yields."""

    __slots__ = (
        "backward",
        "env",
        "function",
        "is_call",
        "is_exact",
        "on_host",
        "part",
        "returns",
        "split",
        "values",
        "yields",
    )

    def __init__(self, function: FunctionInfo, part: Slice | None = None) -> None:
        self.function = function
        self.part = part  # the interpreted slice; None for the whole function
        self.values: dict[ast.expr, Value] = {}
        self.returns: list[Value] = []
        self.yields: list[Value] = []
        self.env: Env = {}
        self.backward = sent_backward(function)
        self.on_host: Mapping[str, Kind] = {}
        self.split: set[str] = set()  # names whose attributes or items may have entries of their own in an environment
        self.is_exact = True  # no bound was met that a part of it alone might not meet
        self.is_call = False  # one call with its arguments, not the function for all callers


class Outcome(NamedTuple):
    """The result of a call: the returned value, and by parameter the lists and dicts that it fills."""

    returned: Value
    filled: tuple[tuple[str, Value], ...]


def is_same(one: object, other: object) -> bool:
    """Whether two results of queries are the same; a frame is the same as no unfinished one, itself."""
    if isinstance(one, Frame):
        parts = ("env", "returns", "yields", "values")
        return one is not other and all(is_same(getattr(one, part), getattr(other, part)) for part in parts)
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)) and not isinstance(one, Value):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other
