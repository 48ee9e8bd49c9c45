"""Heat: whether a statement runs in every step, by which loop, hook or call path, or only now and then."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import frameworks
from torchperf_lint.model.index import FunctionInfo, last_name
from torchperf_lint.model.loops import LoopKind, Loops
from torchperf_lint.model.throttles import throttles

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.interpret import World
    from torchperf_lint.model.seeds import Seeds

_EVAL = re.compile(r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|test|infer|inference|predict)(_|$)")
_EXITS = frozenset({"exit", "quit", "_exit", "abort"})


class Heat(NamedTuple):
    """A place that runs in every step.

    `loop` is the batch loop around it in the same function (None: the function itself is called per step);
    `label` names what repeats it; `because` says what shows it.
    """

    loop: ast.For | ast.AsyncFor | ast.While | None
    label: str
    evaluation: bool
    because: tuple[Because, ...]

    @property
    def where(self) -> str:
        """When the place runs, for a message: `on every pass of the training loop`, `in every call of `forward``."""
        return f"in every call of {self.label}" if self.label.startswith("`") else f"on every pass of the {self.label}"


class HeatMap:
    """Answers for one file, on demand."""

    def __init__(self, world: World, loops: Loops, seeds: Seeds, hot_functions: tuple[str, ...]) -> None:
        self.world = world
        self.loops = loops
        self.seeds = seeds
        self.hot_functions = hot_functions
        self._bindings: dict[FunctionInfo, dict[str, list[ast.expr]]] = {}
        self._by_function: dict[FunctionInfo, Heat | None] = {}
        self._visited: set[FunctionInfo] = set()
        self._first_skips: dict[int, int] = {}

    def of(self, statement: ast.stmt, ignore_throttles: bool = False) -> Heat | None:
        """The heat of a statement; None where it is cold, unknown, or throttled."""
        places = self.world.index.places
        place = places[statement]
        function = place.function
        current: ast.stmt = statement
        throttled = False
        leaves: type | None = None
        while True:
            place = places[current]
            throttled = throttled or self._skipped_before(current)
            parent = place.parent
            if parent is None:
                break
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
                if place.field == "body":
                    info = self.loops.classify(parent, function)
                    if info.kind is LoopKind.BATCH:
                        cold = (throttled and not ignore_throttles) or leaves is not None
                        return None if cold else self._loop_heat(parent, function, info.says, info.trains)
                    if info.kind is LoopKind.EPOCH:
                        return None
                if leaves is ast.Break:
                    leaves = None
            else:
                throttled = throttled or self._guarded(parent, place.field, function)
                if isinstance(parent, ast.If) and _leaves(place.block) is not ast.Continue:
                    leaves = leaves or _leaves(place.block)
            current = parent
        if (throttled and not ignore_throttles) or leaves is ast.Raise:
            return None
        return self.of_function(function)

    def throttled(self, statement: ast.stmt) -> bool:
        """Whether the statement would run in every step were it not for a throttle."""
        return self.of(statement) is None and self.of(statement, ignore_throttles=True) is not None

    def of_function(self, function: FunctionInfo) -> Heat | None:
        """The heat of a function's body: by contract, by configuration, or by a call from a hot place."""
        if function in self._by_function:
            return self._by_function[function]
        if function in self._visited:
            return None
        outermost = not self._visited
        self._visited.add(function)
        heat = self._function_heat(function)
        if outermost:
            # Where no hot caller was found, none of the callers visited on the way has one either.
            self._by_function.update(dict.fromkeys(self._visited if heat is None else (), None))
            self._by_function[function] = heat
            self._visited.clear()
        return heat

    def _function_heat(self, function: FunctionInfo) -> Heat | None:
        if isinstance(function.node, ast.Module):
            return None
        row = function.node.lineno
        contract = frameworks.contract_of(self.world, function)
        if contract is not None and contract.hot:
            return Heat(None, f"`{function.name}`", _is_evaluation(function.name), (Because(row, contract.says),))
        qualified = f"{function.cls.name}.{function.name}" if function.cls is not None else function.name
        if function.name in self.hot_functions or qualified in self.hot_functions:
            return Heat(None, f"`{function.name}`", False, (Because(row, "configured as a hot function"),))
        if "dummy" in function.name.lower():
            return None  # a stand-in for a batch that is missing: asked for in every step, needed hardly ever
        for record in self.world.possible_callers(function):
            if record.function is function or not self.seeds.may_be_hot(record.statement):
                continue
            heat = self.of(record.statement) if self.world.reaches(record, function) else None
            if heat is not None:
                step = Because(record.call.lineno, f"`{function.name}` is called here in every step")
                return Heat(None, heat.label, heat.evaluation, (step, *heat.because)[:4])
        return self._closure_heat(function)

    def _closure_heat(self, function: FunctionInfo) -> Heat | None:
        """`optimizer.step(closure)` calls the closure."""
        for record in self.world.index.calls.get("step", ()):
            if any(isinstance(a, ast.Name) and a.id == function.name for a in record.call.args):
                heat = self.of(record.statement)
                if heat is not None:
                    step = Because(record.call.lineno, f"`{function.name}` is the optimizer's closure")
                    return Heat(None, heat.label, False, (step, *heat.because)[:4])
        return None

    def _loop_heat(
        self, loop: ast.For | ast.AsyncFor | ast.While, function: FunctionInfo, says: str, trains: bool
    ) -> Heat:
        loader = self.loops.loader_in(loop.iter, function) if not isinstance(loop, ast.While) else None
        evaluation = not trains and (_is_evaluation(function.name) or _is_evaluation(loader or ""))
        label = "training loop" if trains else "evaluation loop" if evaluation else "batch loop"
        return Heat(loop, label, evaluation, (Because(loop.lineno, says),))

    # -- throttles -------------------------------------------------------------------------------------------------

    def _guarded(self, parent: ast.stmt, field: str, function: FunctionInfo) -> bool:
        """Whether standing in this field of the parent means running only now and then."""
        if field == "handlers" and isinstance(parent, ast.Try):
            return True
        if isinstance(parent, ast.If) and field in ("body", "orelse"):
            return throttles(parent.test, field == "body", self._lookup(function))
        return False

    def _skipped_before(self, statement: ast.stmt) -> bool:
        """An earlier `if step % n: continue` (or return) in the same block."""
        place = self.world.index.places[statement]
        return self._first_skip(place.block, place.function) < place.position

    def _first_skip(self, block: list[ast.stmt], function: FunctionInfo) -> int:
        """The position of the first such statement in the block; past the end if there is none."""
        known = self._first_skips.get(id(block))
        if known is None:
            lookup = self._lookup(function)
            known = len(block)
            for position, earlier in enumerate(block):
                skips = isinstance(earlier, ast.If) and not earlier.orelse and _leaves(earlier.body) is not None
                if skips and throttles(earlier.test, False, lookup):  # type: ignore[attr-defined]
                    known = position
                    break
            self._first_skips[id(block)] = known
        return known

    def bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """What the function's plain assignments bind the name to."""
        return self._lookup(function)(name)

    def _lookup(self, function: FunctionInfo) -> Callable[[str], list[ast.expr]]:
        bindings = self._bindings.get(function)
        if bindings is None:
            bindings = self._bindings[function] = _simple_bindings(function)
        return lambda name: bindings.get(name, [])


def _simple_bindings(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function.node):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _leaves(block: list[ast.stmt]) -> type | None:
    """How a block that ends by leaving does it: Break, Return, Continue or Raise; None if it goes on."""
    last = block[-1]
    if isinstance(last, (ast.Break, ast.Return, ast.Raise, ast.Continue)):
        return type(last)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and last_name(last.value.func) in _EXITS:
        return ast.Raise
    return None


def _is_evaluation(name: str) -> bool:
    return _EVAL.search(name.lower().replace(".", "_")) is not None
