"""What a straight piece of code does to the device's queue, in order: launches of work, and waits that drain it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.queue_calls import last_asked
from torchperf_lint.engine.queue_events import Event, Expressions
from torchperf_lint.knowledge import launches
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOST_CALLS = 2
"""Calls from the code to what launches or waits: `to_numpy(x)`, then `x.cpu()` in it."""

_JUMPS = (ast.Return, ast.Continue, ast.Break)
_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Queue:
    """The events of one file's code; the values of expressions decide, and what is unknown launches work."""

    def __init__(self, model: Model, asker: Model) -> None:
        """`model` answers for the file, `asker` for the one whose findings are weighed.

        The asker remembers the events: its report depends on all that the model says here.
        """
        self._model = model
        self._asker = asker

    def of_statement(self, function: FunctionInfo, statement: ast.stmt) -> tuple[Event, ...]:
        """The events of a statement and of those nested in it, in the order of evaluation."""
        question = ("queue events", statement)
        return self._asker.remember(question, lambda: tuple(self._statement(function, statement, 0)))

    def of_head(
        self,
        function: FunctionInfo,
        statement: ast.stmt,
        site: ast.expr | None = None,
        *,
        chosen: str | None = None,
    ) -> tuple[Event, ...]:
        """The same for the test, the iterable or the contexts that stand before a statement's blocks.

        `site` is a part of the statement that is known to wait, whatever its value. `chosen` is the field with the
        block that runs.
        """
        reached = None
        if isinstance(statement, ast.If) and chosen is not None:
            reached = last_asked(statement.test, holds=chosen == "body")
        question = ("queue events of the head", statement, site, reached)
        return self._asker.remember(question, lambda: tuple(self._head(function, statement, 0, site, reached)))

    def of_body(self, function: FunctionInfo, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[Event]:
        """The same for the body of a loop, in one pass, the last one first."""
        jumps = [self._may_jump(each) for each in loop.body]
        for place in reversed(range(len(loop.body))):
            for event in reversed(self.of_statement(function, loop.body[place])):
                yield event._replace(certain=event.certain and not any(jumps[:place]))

    def of_next_pass(self, function: FunctionInfo, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[Event]:
        """The events between two passes of a loop, the last one first: its test, or what makes the next batch."""
        if isinstance(loop, ast.While):
            yield from reversed(self.of_head(function, loop))
            return
        asker = Expressions(self._model, function, loop, None, self._of_call, 0)
        if isinstance(loop, ast.AsyncFor) or not asker.hands_out_quietly(loop.iter):
            yield Event(loop.iter, loop, waits=False)

    def goes_over_batches(self, loop: ast.For | ast.AsyncFor | ast.While) -> bool:
        """Whether each pass of the loop takes a batch."""
        return self._model.loop_info(loop).kind is LoopKind.BATCH

    # -- statements ------------------------------------------------------------------------------------------------

    def _block(self, function: FunctionInfo, block: list[ast.stmt], depth: int) -> Iterator[Event]:
        may_have_left = False
        for statement in block:
            for event in self._statement(function, statement, depth):
                yield event._replace(certain=event.certain and not may_have_left)
            may_have_left = may_have_left or self._may_jump(statement)

    def _may_jump(self, statement: ast.AST) -> bool:
        """Whether the statement, or one within it, leaves a block before its end."""
        within = (each for each in children(statement) if isinstance(each, _BLOCKS))
        question = ("jumps", statement)
        return isinstance(statement, _JUMPS) or self._asker.remember(question, lambda: any(map(self._may_jump, within)))

    def _statement(self, function: FunctionInfo, statement: ast.stmt, depth: int) -> Iterator[Event]:
        yield from self._head(function, statement, depth)
        if isinstance(statement, _SCOPES):
            return
        if isinstance(statement, ast.If):
            yield from self._branches(function, statement, depth)
            return
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            yield from self._loop(function, statement, depth)
            return
        context = statement if isinstance(statement, (ast.With, ast.AsyncWith)) else None
        is_straight = context is not None and not self._may_swallow(function, context)
        for field in ("body", "orelse", "finalbody"):
            for event in self._block(function, getattr(statement, field, []), depth):
                yield event._replace(certain=event.certain and is_straight, leaves=event.leaves and is_straight)
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from (each._replace(certain=False, leaves=False) for each in self._block(function, part.body, depth))
        if context is not None:
            yield from self._around(function, context, "__exit__", depth)

    def _loop(self, function: FunctionInfo, loop: ast.For | ast.AsyncFor | ast.While, depth: int) -> Iterator[Event]:
        """The events of a loop's blocks, which may not run.

        Many short kernels take long, and any call may launch one, unless each pass waits for what it launches or the
        call works on the host alone. What `while True:` runs in a pass happens at least once, and a test comes last.
        """
        inside = list(self._block(function, loop.body, depth))
        drains = any(each.certain for each in inside) and all(each.waits for each in inside)
        for field in ("body", "orelse"):
            call = None if field == "body" and drains else self._first_call(function, getattr(loop, field))
            if call is not None:
                yield Event(call, loop, waits=False)
        after = self._block(function, loop.orelse, depth)
        if isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and loop.test.value:
            yield from (each._replace(leaves=False) for each in inside)
        else:
            yield from (each._replace(certain=False, leaves=False) for each in inside)
            if isinstance(loop, ast.While) and not any(isinstance(each, ast.Break) for each in subtree(loop)):
                yield from self._head(function, loop, depth)
        yield from (each._replace(certain=False, leaves=False) for each in after)

    def _first_call(self, function: FunctionInfo, block: list[ast.stmt]) -> ast.Call | None:
        """The first call in a loop's block that may launch something, be it one short kernel."""
        for statement in (each for outer in block for each in subtree(outer) if isinstance(each, ast.stmt)):
            if isinstance(statement, _SCOPES):
                return next((each for each in subtree(statement) if isinstance(each, ast.Call)), None)
            asker = Expressions(self._model, function, statement, None, self._of_call, 0)
            parts = (each for each in children(statement) if not isinstance(each, ast.stmt))
            calls = (each for part in parts for each in subtree(part) if isinstance(each, ast.Call))
            found = next((each for each in calls if not asker.is_of_host(each)), None)
            if found is not None:
                return found
        return None

    def _branches(self, function: FunctionInfo, statement: ast.If, depth: int) -> Iterator[Event]:
        """The events of both branches; what both begin or end with is certain."""
        if _asks_for_accelerator(statement.test):
            yield from self._block(function, statement.body, depth)
            return
        around = (each.parent for each in self._model.place_of(statement).outwards())
        is_caught = any(isinstance(each, ast.Try) for each in around)
        branches = []
        for block in (statement.body, statement.orelse):
            fails = bool(block) and isinstance(block[-1], ast.Raise) and not is_caught  # an error ends the pass
            is_rare = block is statement.body and self._model.lets_few_steps_through(statement)
            branches.append([] if fails or is_rare else list(self._block(function, block, depth)))
        first, last = (_shared([branch[::step] for branch in branches]) for step in (1, -1))
        yield from first
        for block, branch in zip((statement.body, statement.orelse), branches, strict=True):
            leaves = bool(block) and isinstance(block[-1], _JUMPS)
            launched = (each for each in branch if not each.waits)  # a wait of one branch drains nothing for sure
            yield from (each._replace(certain=False, leaves=leaves or each.leaves) for each in launched)
        yield from last

    def _head(
        self,
        function: FunctionInfo,
        statement: ast.stmt,
        depth: int,
        site: ast.expr | None = None,
        reached: ast.expr | None = None,
    ) -> Iterator[Event]:
        if isinstance(statement, _SCOPES):
            return
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.MatMult):
            yield Event(statement.target, statement, waits=False)
        of_call = self._of_call if depth < _MOST_CALLS else None
        asker = Expressions(self._model, function, statement, site, of_call, depth, reached)
        if isinstance(statement, (ast.If, ast.While, ast.Assert)):
            yield from asker.of_test(statement.test)
            return
        parts = [each for each in children(statement) if isinstance(each, (ast.expr, ast.withitem))]
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            parts.sort(key=lambda each: each is not statement.value)
        for part in parts:
            yield from asker.events(part)
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            yield from asker.of_consumed(statement.iter, [statement.iter])
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from self._around(function, statement, "__enter__", depth)

    # -- contexts and calls ------------------------------------------------------------------------------------------

    def _around(
        self, function: FunctionInfo, statement: ast.With | ast.AsyncWith, method: str, depth: int
    ) -> Iterator[Event]:
        """What objects do at the start or end of a `with` block."""
        for item in statement.items:
            expr = item.context_expr
            cls = self._model.value_in(function, expr).cls
            called = None if cls is None or depth == _MOST_CALLS else self._model.method(cls, method)
            if called is not None:
                inside = self._of_call(called, depth + 1)
                yield from (Event(expr, statement, each.waits) for each in inside if not each.waits or each.certain)
            elif not (isinstance(expr, ast.Call) and self._is_quiet_context(function, expr)):
                yield Event(expr, statement, waits=False)

    def _is_quiet_context(self, function: FunctionInfo, call: ast.Call) -> bool:
        """Whether a context is of a library, or is made by a method whose name says that it switches modes."""
        return self._model.value_in(function, call.func).kind is Kind.LIBRARY or (
            self._model.value_in(function, call).cls is None and last_name(call.func) in launches.MODES
        )

    def _may_swallow(self, function: FunctionInfo, statement: ast.With | ast.AsyncWith) -> bool:
        """Whether an error in the block may lead behind it: `suppress(...)`, an `__exit__` that returns something."""
        for item in statement.items:
            expr = item.context_expr
            if last_name(expr.func if isinstance(expr, ast.Call) else expr) in launches.SWALLOW:
                return True
            cls = self._model.value_in(function, expr).cls
            leave = None if cls is None else self._model.method(cls, "__exit__")
            if leave is not None and any(isinstance(each, ast.Return) and each.value for each in leave.statements):
                return True
        return False

    def _of_call(self, function: FunctionInfo, depth: int) -> tuple[Event, ...]:
        """The events of a function's body, where so many calls lead to it."""
        home = self._model.home(function)
        if has_several_queues(home):
            return (Event(ast.Constant(None), function.body[0], waits=False),) if function.body else ()
        question = ("queue events in calls", function, depth)
        there = self if home is self._model else Queue(home, self._asker)
        return self._asker.remember(question, lambda: tuple(there._block(function, function.body, depth)))


def has_several_queues(model: Model) -> bool:
    """Whether the file's code has streams of its own, or names a second device: each has a queue."""
    code = model.code
    is_ordered = code.names("cuda.stream") or code.calls("Stream", "ExternalStream")
    return is_ordered or code.speaks_of(*(f"cuda:{number}" for number in range(1, 8)))


def _shared(branches: list[list[Event]]) -> list[Event]:
    """The wait with which the last events of each branch end; none if one of them launches work first."""
    ends = [next((each for each in branch if not each.waits or each.certain), None) for branch in branches]
    return [each for each in ends[:1] if each is not None and all(end is not None and end.waits for end in ends)]


def _asks_for_accelerator(test: ast.expr) -> bool:
    """`if cuda:`, `if self.cuda:`, `if torch.cuda.is_available():`: true where waits matter."""
    if isinstance(test, ast.Call):
        owner = last_name(test.func.value) if isinstance(test.func, ast.Attribute) else None
        return last_name(test.func) == "is_available" and owner in launches.ACCELERATORS
    return (last_name(test) or "") in launches.ASKS_FOR_ACCELERATOR
