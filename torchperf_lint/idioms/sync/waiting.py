"""What may run before a delayed read: computed for all reads of a block together, one visit per statement."""

from __future__ import annotations

import ast
import enum
from bisect import bisect_right
from typing import TYPE_CHECKING

from torchperf_lint.idioms import habits, surroundings, writes
from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.timing import TIMING_NAMES
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torchperf_lint.idioms.sync.delays import Delayed
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo, Place

_ASKS = torch_api.GIVES_TENSOR | {"item", "tolist", "cpu", "size", "dim", "numel"}
_BUILTINS = frozenset(f"builtins.{name}" for name in "float int bool len min max round abs sum str isinstance".split())
_WALKERS = frozenset({"builtins.min", "builtins.max", "builtins.sum"})
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ORDER = ("synchronize", "stream", "wait_event", "record", "barrier")


class Care(enum.Enum):
    """The requirements on a statement that runs before a read, so that the order makes no difference."""

    FAILS_ALIKE = "a plain read: what the first one raises may be caught"
    QUIET = "arithmetic and questions to tensors"
    UNTIMED = "anything that does not measure time: nothing else sees the tensor or the name"


def care_of(model: Model, later: Delayed) -> Care:
    """The requirements while the read waits."""
    if surroundings.may_be_caught(model, later.read.site):
        return Care.FAILS_ALIKE
    if later.private and later.hidden and not habits.orders_streams(model.code):
        return Care.UNTIMED
    return Care.QUIET


class Run:
    """A run of positions that pass a test; it grows on demand, and each position is tested once."""

    def __init__(self, passes: Callable[[int], bool]) -> None:
        self._passes = passes
        self._start = self._end = 0
        self._ended = False

    def spans(self, start: int, end: int) -> bool:
        """Whether all positions from the start to the end pass."""
        if not self._start <= start <= self._end:
            self._start, self._end, self._ended = start, start, False
        while self._end < end and not self._ended:
            self._ended = not self._passes(self._end)
            self._end += not self._ended
        return self._end >= end


class Statements:
    """The statements of a block by the names in them, and by what may run before a delayed read."""

    def __init__(self, model: Model, place: Place) -> None:
        self._model = model
        self._function = place.function
        self.block = place.block
        self._mentions: dict[str, list[int]] = {}
        self._rebinds: dict[str, list[int]] = {}
        self._names = [self._note(position, statement) for position, statement in enumerate(self.block)]
        self._passing: dict[tuple[int, Care], bool] = {}
        self._runs = {care: Run(lambda position, care=care: self._passes(position, care)) for care in Care}  # type: ignore[misc]

    def _note(self, position: int, statement: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
        names = [node for node in subtree(statement) if isinstance(node, ast.Name)]
        mentioned = frozenset(node.id for node in names)
        rebound = frozenset(node.id for node in names if not isinstance(node.ctx, ast.Load))
        for found, kept in ((mentioned, self._mentions), (rebound, self._rebinds)):
            for name in found:
                kept.setdefault(name, []).append(position)
        return mentioned, rebound

    def next_mention(self, name: str, position: int) -> int | None:
        """The first position after this one that has the name."""
        return _next(self._mentions.get(name, []), position)

    def may_wait(self, later: Delayed, start: int, end: int) -> bool:
        """Whether all statements from the start to the end, which do not mention its name, may run before the read."""
        if later.tensor is not None:
            rebound = _next(self._rebinds.get(later.tensor, []), start - 1)
            if rebound is not None and rebound < end:
                return False
        return self._runs[care_of(self._model, later)].spans(start, end)

    def may_run_first(self, position: int, names: Collection[str], tensors: Collection[str], care: set[Care]) -> bool:
        """Whether the statement may run before reads that bind these names and read these tensors, with this care."""
        mentioned, rebound = self._names[position]
        return (
            mentioned.isdisjoint(names)
            and rebound.isdisjoint(tensors)
            and all(self._passes(position, each) for each in care)
        )

    def _passes(self, position: int, care: Care) -> bool:
        key = position, care
        if key not in self._passing:
            self._passing[key] = _lets_pass(self._model, self._function, self.block[position], care)
        return self._passing[key]


def statements_around(model: Model, statement: ast.stmt) -> Statements:
    """The block that contains the statement."""
    place = model.place_of(statement)
    return model.remember(("statements", id(place.block)), lambda: Statements(model, place))


def _next(places: list[int], position: int) -> int | None:
    number = bisect_right(places, position)
    return places[number] if number < len(places) else None


def _lets_pass(model: Model, function: FunctionInfo, statement: ast.stmt, care: Care) -> bool:
    """Whether the statement, with other names, may run before a read that requires this care."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Pass)):
        return False
    if any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in subtree(statement)):
        return False
    quiet = model.remember(("quiet", statement), lambda: _is_quiet(model, function, statement))
    if care is Care.FAILS_ALIKE:
        return quiet and _is_plain_read(statement)
    return quiet or (care is Care.UNTIMED and not _tells_time(statement))


def _is_quiet(model: Model, function: FunctionInfo, statement: ast.stmt) -> bool:
    """Whether the statement runs no foreign code and writes to no tensor: arithmetic, tensor queries."""

    def value_of(node: ast.expr) -> tuple[Kind, str]:
        value = model.value_in(function, node)
        return value.kind, value.ref or ""

    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(part is None or isinstance(part, ast.Name) for part in parts):
            return False
    if isinstance(statement, ast.AugAssign) and value_of(statement.target)[0] is not Kind.NUMBER:
        return False
    for node in subtree(statement):
        if isinstance(node, _COMPREHENSIONS) or (
            isinstance(node, ast.Call) and not _is_quiet_call(model, function, node)
        ):
            return False
    return True


def _is_quiet_call(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    callee = model.value_in(function, call.func)
    ref, name = callee.ref or "", last_name(call.func) or ""
    if any(keyword.arg in (None, "out", "inplace", "key") for keyword in call.keywords) or name.endswith("_"):
        return False
    if callee.kind is Kind.LIBRARY:
        walks = ref in _WALKERS and len(call.args) == 1
        return writes.only_computes(ref, call) or ref.startswith("math.") or (ref in _BUILTINS and not walks)
    if not isinstance(call.func, ast.Attribute) or callee.function is not None or name not in _ASKS:
        return False
    receiver = model.value_in(function, call.func.value)
    return receiver.holds_tensors and receiver.device.on_accelerator


def _is_plain_read(statement: ast.stmt) -> bool:
    """`a = x.item()` and `a = float(x)` of a name or path: it fails only where the first read does."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in ("item", "detach", "cpu") and not value.args:
            value = value.func.value
        elif isinstance(value.func, ast.Name) and value.func.id == "float" and len(value.args) == 1:
            value = value.args[0]
        else:
            return False
    return value is not None and dotted(value) is not None


def _tells_time(statement: ast.stmt) -> bool:
    """Whether the statement measures time, or waits for or records an event in the device's work."""
    for node in subtree(statement):
        word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if TIMING_NAMES.search(word.lower()) or any(each in word.lower() for each in _ORDER):
            return True
    return False
