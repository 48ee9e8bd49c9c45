"""Follows the batches of one loader through single calls: each with its own arguments, on its own object.

What a method gets in general is not known where many objects share it, and which overriding method its calls mean is
not either. A single call shows both.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import loading
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, located
from torchperf_lint.model.loaders.datasets import places_on_device
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.values import parameters
from torchperf_lint.model.values.devices import named_device
from torchperf_lint.model.values.spreading import is_starred, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

    ValueOf = Callable[[ast.expr], Value]
    Seen = tuple[FunctionInfo, tuple[tuple[str, Value], ...]]
    """A function and what its parameters are in one call of it."""
    _Entered = tuple[FunctionInfo, Mapping[ast.expr, Value], tuple[CallRecord, ...]]


_CALLED = (Kind.FUNCTION, Kind.METHOD, Kind.INSTANCE)
_LEAVE_IT = (Kind.LIBRARY, Kind.MODULE)
"""What does not call the loader's own object back, and what a module does is seen in its class."""
_HOLD = (Kind.TENSOR, Kind.PYTREE, Kind.CONTAINER, Kind.LOADER)


class Move(NamedTuple):
    """A call that moves batches of the loader, and the calls that hand them over to its function."""

    record: CallRecord
    device: Device
    way: tuple[CallRecord, ...]


class Following:
    """Follows one loader from one function that has it; `moves` are in the functions that get it, the nearest first."""

    def __init__(
        self, inference: ValueQuestions, loader: ast.Call, start: FunctionInfo, seen: set[Seen] | None = None
    ) -> None:
        self._inference = inference
        self._loader = loader
        self.is_complete = True
        """Whether nothing gets the loader or its batches but what was followed."""
        self.moves: list[Move] = []
        self._seen: set[Seen] = set() if seen is None else seen
        self._pending: deque[_Entered] = deque([(start, inference.frame(start).values, ())])
        while self._pending and not self.moves:
            self._follow(*self._pending.popleft())

    def _follow(self, function: FunctionInfo, values: Mapping[ast.expr, Value], way: tuple[CallRecord, ...]) -> None:
        def value_of(node: ast.expr) -> Value:
            return values.get(node, UNKNOWN)

        for record in function.calls_made:
            device = self._moved_to(record.call, value_of)
            if device is not None:
                self.moves.append(Move(record, device, way))
            elif self._has([value_of(each) for each in given_in(record.call)]):
                self._enter(record, value_of, way)
        kept = (each for each in function.nodes if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
        if function.is_generator or self._has(map(value_of, kept)) or self._is_captured(function, value_of):
            self.is_complete = False

    def _is_captured(self, function: FunctionInfo, value_of: ValueOf) -> bool:
        """Whether a nested function reads a name for the loader or its batches."""
        inner = [each for each in function.index.all_functions if each.outer is function]
        held = {each.id for each in function.nodes if isinstance(each, ast.Name) and self._has([value_of(each)])}
        return any(isinstance(node, ast.Name) and node.id in held for each in inner for node in each.nodes)

    def _has(self, values: Iterable[Value]) -> bool:
        return self._loader in all_sources(values)

    def _moved_to(self, call: ast.Call, value_of: ValueOf) -> Device | None:
        if self._loader in moved_sources(call, value_of):
            return destination(call, value_of)
        is_given = any(self._loader in sources_of(value_of(each)) for each in given_in(call))
        return Device.LIKELY if is_given and is_moving_helper(call, value_of) else None

    def _enter(self, record: CallRecord, value_of: ValueOf, way: tuple[CallRecord, ...]) -> None:
        """Follow a call that gets the loader."""
        home = self._inference.home(record.function.index)
        callee = value_of(record.call.func)
        function, own = callee.function, callee.element
        if callee.kind is Kind.INSTANCE and callee.cls is not None:
            function, own = home.method(callee.cls, "__call__"), callee
        if function is None or function.is_lambda or callee.kind not in _CALLED:
            self.is_complete &= callee.kind in _LEAVE_IT or (own or UNKNOWN).kind in _HOLD
            return
        if self._may_be_overridden(function, own or UNKNOWN):
            self.is_complete = False
        bound = _bound(home, function, record.call, own or UNKNOWN, callee.kind, value_of)
        key = (function, tuple(sorted(bound.items(), key=lambda pair: pair[0])))
        if key in self._seen:
            return
        self._seen.add(key)
        within = len(self._seen) <= bounds.MOST_SINGLE_CALLS and len(way) < bounds.MOST_CALLS_DEEP
        values = self._inference.home(function.index).in_call(function, bound) if within else None
        if values is None:
            self.is_complete = False
        else:
            self._pending.append((function, values, (*way, record)))

    def _may_be_overridden(self, function: FunctionInfo, own: Value) -> bool:
        """Whether the object may be of a subclass with a method of its own in this one's place."""
        program, cls = self._inference.program, own.cls
        if cls is None or function.cls is None or program is None:
            return cls is not None
        named = program.methods_named(function.name, function.index)
        others = [each.cls for each in named or () if each.cls is not None and each.cls is not cls]
        return named is None or function.is_abstract or any(cls in self._inference.lineage(each) for each in others)


def _bound(
    inference: ValueQuestions, function: FunctionInfo, call: ast.Call, own: Value, kind: Kind, value_of: ValueOf
) -> dict[str, Value]:
    """The function's parameters in the call; `own` is the object whose method it is."""
    is_bound = kind is not Kind.FUNCTION and not function.is_static
    if is_starred(call):
        arguments, keywords = spread(function, is_bound, call, value_of)
    else:
        arguments = [value_of(each) for each in call.args]
        keywords = {each.arg: value_of(each.value) for each in call.keywords if each.arg}
    path = inference.index.path
    positional = [located(value, path) for value in ([own, *arguments] if is_bound else arguments)]
    named = {name: located(value, path) for name, value in keywords.items()}
    return parameters.bind(inference.home(function.index), function, positional, named)


# -- what moves a batch --------------------------------------------------------------------------------------------


def moved_sources(call: ast.Call, value_of: ValueOf) -> tuple[ast.Call, ...]:
    """The loaders whose batches `batch.to(device)`, `batch.cuda()` takes from the host."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
        return ()
    batch = value_of(call.func.value)
    return () if batch.device.on_accelerator else sources_of(batch)


def destination(call: ast.Call, value_of: ValueOf) -> Device | None:
    """The accelerator that such a call names; None if it names none."""
    if last_name(call.func) == "cuda":
        return Device.CUDA
    for node in [*call.args, *(each.value for each in call.keywords if each.arg in ("device", "other"))]:
        value = value_of(node)
        device = value.device if value.holds_tensors else named_device(node, value)
        if device is not None:
            return device if device.on_accelerator else None
    return None


def is_moving_helper(call: ast.Call, value_of: ValueOf) -> bool:
    """Whether a function named for moving its argument is called and does so, as far as its code is visible."""
    if not re.search(loading.MOVING_HELPERS, last_name(call.func) or ""):
        return False
    helper = value_of(call.func).function
    to_host = any(named_device(node, value_of(node)) is Device.CPU for node in given_in(call))
    return helper is None or (places_on_device(helper.node) and not to_host)


def given_in(call: ast.Call) -> list[ast.expr]:
    """The expressions that a call passes."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def sources_of(value: Value) -> tuple[ast.Call, ...]:
    """The loaders that a value, its elements or its owner come from."""
    if value.sources:
        return value.sources
    if value.kind is Kind.CONTAINER:
        held = [item for _, item in value.items or ()]
        return all_sources(held or ([value.element] if value.element is not None else []))
    if value.kind is Kind.METHOD and value.element is not None:
        return sources_of(value.element)
    return ()


def all_sources(values: Iterable[Value]) -> tuple[ast.Call, ...]:
    """The loaders of several values."""
    return tuple(dict.fromkeys(source for value in values for source in sources_of(value)))
