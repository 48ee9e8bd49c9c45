"""What a straight piece of code does to the device's queue, in order: launches of work, and waits that drain it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import launches, torch_api
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from torchperf_lint.model import Model
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOST_CALLS = 2
"""Calls from the code to what launches or waits: `to_numpy(x)`, then `x.cpu()` in it."""

_JUMPS = (ast.Return, ast.Continue, ast.Break)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_QUIET_KINDS = (Kind.NONE, Kind.NUMBER, Kind.STRING, Kind.DEVICE, Kind.DTYPE, Kind.NUMPY, Kind.CONTAINER)


class Event(NamedTuple):
    """An expression, or the name of a loop's pass, that launches much work or waits for the device.

    `certain` says that it happens whenever the code around it runs to its end, `leaves` that a branch around it ends
    in a jump: what stands behind that branch has not run it.
    """

    node: ast.AST
    waits: bool
    certain: bool = True
    leaves: bool = False


class Queue:
    """The events of one file's code; the values of expressions decide, and what is unknown launches work."""

    def __init__(self, model: Model, reported: Collection[ast.AST] = ()) -> None:
        """`model` answers for the file; `reported` are expressions that rules report as waits."""
        self._model = model
        self._reported = reported

    def of_statement(self, function: FunctionInfo, statement: ast.stmt) -> tuple[Event, ...]:
        """The events of a statement and of those nested in it, in the order of evaluation."""
        question = ("queue events", statement)
        return self._model.remember(question, lambda: tuple(self._statement(function, statement, 0)))

    def of_head(self, function: FunctionInfo, statement: ast.stmt) -> tuple[Event, ...]:
        """The same for the test, the iterable or the contexts that stand before a statement's blocks."""
        question = ("queue events of the head", statement)
        return self._model.remember(question, lambda: tuple(self._head(function, statement, 0)))

    # -- statements ------------------------------------------------------------------------------------------------

    def _block(self, function: FunctionInfo, block: list[ast.stmt], depth: int) -> Iterator[Event]:
        may_have_left = False
        for statement in block:
            for event in self._statement(function, statement, depth):
                yield event._replace(certain=event.certain and not may_have_left)
            may_have_left = may_have_left or any(isinstance(node, _JUMPS) for node in subtree(statement))

    def _statement(self, function: FunctionInfo, statement: ast.stmt, depth: int) -> Iterator[Event]:
        yield from self._head(function, statement, depth)
        if isinstance(statement, _SCOPES):
            return
        if isinstance(statement, ast.If):
            yield from self._branches(function, statement, depth)
            return
        is_straight = isinstance(statement, (ast.With, ast.AsyncWith))
        for field in ("body", "orelse", "finalbody"):
            for event in self._block(function, getattr(statement, field, []), depth):
                yield event._replace(certain=event.certain and is_straight, leaves=event.leaves and is_straight)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from (_perhaps(each) for each in self._block(function, part.body, depth))
        if is_straight:
            yield from self._around(function, statement, "__exit__", depth)

    def _branches(self, function: FunctionInfo, statement: ast.If, depth: int) -> Iterator[Event]:
        """The events of both branches; what both begin or end with is certain."""
        if _asks_for_accelerator(statement.test):
            yield from self._block(function, statement.body, depth)
            return
        branches = []
        for block in (statement.body, statement.orelse):
            fails = bool(block) and isinstance(block[-1], ast.Raise)  # an error ends the pass
            branches.append([] if fails else list(self._block(function, block, depth)))
        first, last = (_shared([branch[::step] for branch in branches]) for step in (1, -1))
        yield from first
        for block, branch in zip((statement.body, statement.orelse), branches, strict=True):
            leaves = bool(block) and isinstance(block[-1], _JUMPS)
            yield from (each._replace(certain=False, leaves=leaves or each.leaves) for each in branch)
        yield from last

    def _around(self, function: FunctionInfo, statement: ast.stmt, method: str, depth: int) -> Iterator[Event]:
        """What objects of the project do at the start or end of a `with` block."""
        home = self._model.home(function)
        for item in getattr(statement, "items", ()):
            cls = home.value_in(function, item.context_expr).cls
            called = None if cls is None or depth == _MOST_CALLS else home.method(cls, method)
            if called is not None:
                inside = self.at_home(called).in_call(called, depth + 1)
                yield from (Event(item.context_expr, each.waits) for each in inside if not each.waits or each.certain)

    def _head(self, function: FunctionInfo, statement: ast.stmt, depth: int) -> Iterator[Event]:
        if isinstance(statement, _SCOPES):
            return
        values = self._model.home(function).values_in(function, statement)
        asker = _Expressions(self, self._model, function, values, depth)
        parts = [each for each in children(statement) if isinstance(each, (ast.expr, ast.withitem))]
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            parts.sort(key=lambda each: each is not statement.value)
        for part in parts:
            yield from asker.events(part)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from self._around(function, statement, "__enter__", depth)

    def in_call(self, function: FunctionInfo, depth: int) -> tuple[Event, ...]:
        """The events of a function's body, where so many calls lead to it."""
        question = ("queue events in calls", function, depth)
        return self._model.remember(question, lambda: tuple(self._block(function, function.body, depth)))

    def at_home(self, function: FunctionInfo) -> Queue:
        """The queue that answers for the function's file."""
        home = self._model.home(function)
        return self if home is self._model else Queue(home)

    def is_reported(self, node: ast.AST) -> bool:
        """Whether a rule reports the expression as a wait."""
        return node in self._reported


def _perhaps(event: Event) -> Event:
    return event._replace(certain=False, leaves=False)


def _shared(branches: list[list[Event]]) -> list[Event]:
    """The wait with which the last events of each branch end; none if one of them launches work first."""
    ends = [next((each for each in branch if not each.waits or each.certain), None) for branch in branches]
    return [each for each in ends[:1] if each is not None and all(end is not None and end.waits for end in ends)]


def _asks_for_accelerator(test: ast.expr) -> bool:
    """`if cuda:`, `if self.cuda:`, `if torch.cuda.is_available():`: true where waits matter."""
    name = last_name(test.func if isinstance(test, ast.Call) else test) or ""
    return name in launches.ASKS_FOR_ACCELERATOR


def _asks_for_tensor(test: ast.expr) -> bool:
    """`torch.is_tensor(x)`, `isinstance(x, torch.Tensor)`: true where waits matter."""
    if not isinstance(test, ast.Call):
        return False
    name = last_name(test.func)
    return name == "is_tensor" or (name == "isinstance" and last_name(test.args[-1]) == "Tensor")


class _Expressions:
    """The events of the expressions of one statement."""

    def __init__(
        self, queue: Queue, model: Model, function: FunctionInfo, values: Mapping[ast.expr, Value], depth: int
    ) -> None:
        self._queue = queue
        self._model = model
        self._function = function
        self._values = values
        self._depth = depth

    def events(self, node: ast.AST) -> Iterator[Event]:
        """The events of an expression, those of its parts first."""
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, _COMPREHENSIONS):
            yield from self.events(node.generators[0].iter)
            for part in (each for each in subtree(node) if isinstance(each, ast.Call)):
                yield from (each._replace(certain=False) for each in self._call(part))
            return
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            first, others = (
                (node.values[0], node.values[1:])
                if isinstance(node, ast.BoolOp)
                else (node.test, [node.body, node.orelse])
            )
            yield from self.events(first)
            straight = others[:1] if isinstance(node, ast.IfExp) and _asks_for_tensor(node.test) else []
            for other in others:
                is_certain = other in straight
                yield from (each._replace(certain=each.certain and is_certain) for each in self.events(other))
            return
        for child in children(node):
            yield from self.events(child)
        if self._queue.is_reported(node):
            yield Event(node, waits=True)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield Event(node, waits=False)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and self._is_mask(node.slice):
            yield Event(node, waits=True)

    def _value(self, node: ast.expr) -> Value:
        return self._values.get(node, UNKNOWN)

    def _on_device(self, node: ast.expr) -> bool:
        value = self._value(node)
        return value.device.on_accelerator and value.holds_tensors and not value.mixed

    def _is_mask(self, node: ast.expr) -> bool:
        value = self._value(node)
        return value.is_tensor and self._on_device(node) and value.dtype == "bool"

    def _call(self, call: ast.Call) -> Iterator[Event]:
        """What the call itself does, once its arguments are there."""
        callee = self._value(call.func)
        if callee.kind is Kind.LIBRARY:
            yield from self._of_library(call, callee.ref or "")
        elif callee.kind is Kind.MODULE:
            yield Event(call, waits=False)
        elif callee.function is not None:
            yield from self._of_project(call, callee.function)
        elif isinstance(call.func, ast.Attribute):
            yield from self._of_method(call, call.func)
        elif callee.kind is Kind.CLASS and callee.cls is not None:
            made_by = self._model.method(callee.cls, "__init__")
            yield from () if made_by is None else self._of_project(call, made_by)
        else:
            yield Event(call, waits=False)

    def _of_library(self, call: ast.Call, ref: str) -> Iterator[Event]:
        root = ref.partition(".")[0]
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if root in launches.HOST_ROOTS:
            return  # `int(x)` and `if x` wait where a rule reports them: other values may be numbers
        if ref in launches.WAIT or ref.endswith(".synchronize"):
            yield Event(call, waits=True)
        elif ref in torch_api.HOST_DATA_FACTORIES:
            if self._on_device(call) and given and not self._on_device(given[0]):
                yield Event(call, waits=True)
        elif last_name(call.func) in torch_api.SIZED_BY_DATA and any(map(self._on_device, given)):
            yield from self._sized(call, of_method=False)
        elif not ref.startswith(launches.QUIET_ROOTS) and (
            root != "torch" or ref.rpartition(".")[2] not in launches.SMALL_FUNCTIONS
        ):
            yield Event(call, waits=False)

    def _sized(self, call: ast.Call, *, of_method: bool) -> Iterator[Event]:
        """A call whose result's size is in the data, unless an argument gives it."""
        name = last_name(call.func) or ""
        size, place = torch_api.SIZE_ARGUMENTS.get(name, ("", None))
        has_size = any(keyword.arg == size for keyword in call.keywords)
        has_size = has_size or (place is not None and len(call.args) > place - of_method)
        if not has_size and not (name == "where" and len(call.args) + of_method > 1):
            yield Event(call, waits=True)

    def _of_method(self, call: ast.Call, func: ast.Attribute) -> Iterator[Event]:
        name, owner = func.attr, self._value(func.value)
        if owner.holds_tensors or (owner.device.on_accelerator and owner.kind is Kind.UNKNOWN):
            yield from self._of_tensor(call, name, owner)
        elif owner.kind in _QUIET_KINDS or name in launches.QUIET_METHODS or owner.device is Device.CPU:
            return
        else:
            yield Event(call, waits=False)

    def _of_tensor(self, call: ast.Call, name: str, owner: Value) -> Iterator[Event]:
        there = owner.device.on_accelerator
        if name in launches.HEAVY_METHODS:
            yield Event(call, waits=False)
        elif name in torch_api.HOST_READS or name == "cpu" or (name == "to" and self._names_host(call)):
            if there:
                yield Event(call, waits=True)
        elif name in ("to", "cuda"):
            waits = not any(keyword.arg == "non_blocking" for keyword in call.keywords)
            if waits and owner.device is Device.CPU and self._on_device(call):
                yield Event(call, waits=True)
        elif name in torch_api.SIZED_BY_DATA and there:
            yield from self._sized(call, of_method=True)

    def _names_host(self, call: ast.Call) -> bool:
        return bool(call.args) and self._value(call.args[0]).device is Device.CPU

    def _of_project(self, call: ast.Call, function: FunctionInfo) -> Iterator[Event]:
        """What a function of the project does, as one event: the last that is certain of those that end it."""
        is_plain = not isinstance(function.node, ast.AsyncFunctionDef) and all(
            (last_name(each.func if isinstance(each, ast.Call) else each) or "") in launches.RUN_THE_BODY
            for each in function.decorators
        )
        if self._depth == _MOST_CALLS or function.is_generator or function.is_module or not is_plain:
            yield Event(call, waits=False)
            return
        inside = self._queue.at_home(function).in_call(function, self._depth + 1)
        yield from (Event(call, each.waits) for each in inside if not each.waits or each.certain)
