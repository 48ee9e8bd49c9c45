"""One interpretation of a function: what its expressions are, and what it gives back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.values import Kind, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping

    from torchperf_lint.model.syntax.index import FunctionInfo
    from torchperf_lint.model.syntax.slices import Slice

Env = dict[str, Value]
"""What names and dotted paths stand for at one place."""


class Frame:
    """One interpretation of a function: the value of every expression in it, and what it gives back."""

    __slots__ = ("backward", "env", "function", "is_call", "on_host", "part", "returns", "split", "values", "yields")

    def __init__(self, function: FunctionInfo, part: Slice | None = None) -> None:
        self.function = function
        self.part = part  # None if all of it is run
        self.values: dict[ast.expr, Value] = {}
        self.returns: list[Value] = []
        self.yields: list[Value] = []
        self.env: Env = {}
        self.backward: frozenset[str] = frozenset()
        self.on_host: Mapping[str, Kind] = {}
        self.split: set[str] = set()  # names of which attributes or entries may be in an environment
        self.is_call = False  # a particular call with its arguments, not the function in general


class Outcome(NamedTuple):
    """What a call gives back, and what its arguments are then, by parameters: the lists and dicts that it fills."""

    returned: Value
    filled: tuple[tuple[str, Value], ...]
