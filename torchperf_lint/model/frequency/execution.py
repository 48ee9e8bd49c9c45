"""Execution frequency: whether a statement runs in every step, by which loop, hook or call path, or only sometimes."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Unproven
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, hierarchy, possible_calls, roles
from torchperf_lint.model.domain.flows import PossibleCall, still_handed
from torchperf_lint.model.domain.frequency import Frequency, HotPath, LoopKind, names_evaluation
from torchperf_lint.model.domain.grades import Grade
from torchperf_lint.model.frequency import comprehensions, following, may_reach, receivers, settings
from torchperf_lint.model.frequency.branches import Step, asks_types, calls_own_method, demands
from torchperf_lint.model.frequency.evaluating_scripts import is_of_evaluating_script
from torchperf_lint.model.frequency.first_pass import FirstPass
from torchperf_lint.model.frequency.leaving import jump_at_end, leaves_but_for_errors
from torchperf_lint.model.frequency.rare_moments import is_rare
from torchperf_lint.model.frequency.sampling_guards import (
    bindings_in,
    is_guard,
    is_sampling_guard,
    tests_around,
    waits_for_interval,
    warns,
)
from torchperf_lint.model.frequency.ways import Way, Where, shortened
from torchperf_lint.model.project.dependencies import NOTHING, node_of
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.model.domain.flows import Handing
    from torchperf_lint.model.domain.frequency import Loop, LoopInfo
    from torchperf_lint.model.domain.interfaces import FrequencyQuestions, ValueQuestions
    from torchperf_lint.model.frequency.entry_points import EntryPoints
    from torchperf_lint.model.frequency.loops import Loops
    from torchperf_lint.model.frequency.path_conditions import Formula
    from torchperf_lint.model.project.dependencies import DependencyRecorder, Memo, Node
    from torchperf_lint.model.project.query_cache import QueryCache
    from torchperf_lint.model.syntax.call_sites import CallSite


_AS_THE_FUNCTION = HotPath(None, Frequency.FUNCTION, ())
"""The frequency of a statement that runs as often as the function around it."""


class ExecutionFrequency:
    """Execution frequencies of one file, computed on demand."""

    def __init__(
        self,
        inference: ValueQuestions,
        loops: Loops,
        entry_points: EntryPoints,
        hot_functions: tuple[str, ...],
        recorder: DependencyRecorder,
        known: may_reach.Reachability,
        guarded_calls: QueryCache,
    ) -> None:
        """`guarded_calls` holds results about calls in expressions, of all files that may ask each other."""
        self.inference = inference
        self.loops = loops
        self.entry_points = entry_points
        self.hot_functions = hot_functions
        self.recorder = recorder
        self._by_function: Memo[tuple[FunctionInfo, frozenset[Formula], ast.stmt | None], HotPath | None]
        self._by_function = recorder.memo()
        self._known: Memo[tuple[ast.stmt, bool], HotPath | None] = recorder.memo()
        self._hot_blocks: Memo[int, bool] = recorder.memo()
        self._sampled_parts: Memo[ast.expr, bool] = recorder.memo()
        self._first_skips: Memo[int, int] = recorder.memo()
        self._guards: Memo[tuple[ast.stmt, str], bool] = recorder.memo()
        self._ways: Memo[Where, HotPath | None] = recorder.memo()
        self._never_so: Memo[tuple[settings.Asked, ast.Call | None], bool] = recorder.memo()
        self._guarded_calls = guarded_calls
        self.reachability = known

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly not hot, by names alone; checked before any value is computed."""
        index = self.inference.index
        block = index.places[statement].block_id
        if self.recorder.kept(self._hot_blocks, block, lambda: self._may_be_hot(statement)):
            return True
        if statement in index.comprehensions and self.entry_points.in_loop(statement):
            return True
        return statement in index.lambdas and any(map(self.function_may_be_hot, index.lambdas[statement]))

    def _may_be_hot(self, statement: ast.stmt) -> bool:
        place = self.inference.index.places[statement]
        if isinstance(place.parent, ast.If) and jump_at_end(place.block) is ast.Raise:
            return False  # an error ends the run
        if not self.entry_points.may_be_hot(statement):
            return False
        return self.entry_points.in_loop(statement) or may_reach.may_be_hot(self, place.function)

    def function_may_be_hot(self, function: FunctionInfo) -> bool:
        """False only if the function, or lambda, is certainly not called in every step, by names alone."""
        return may_reach.may_be_hot(self, function)

    def of_part(self, statement: ast.stmt, node: ast.expr) -> HotPath | None:
        """The hot path to an expression of the statement: in a lambda whose calls are known, that of these calls.

        In a comprehension over a loader, that of its elements, if nothing else repeats the statement.
        """
        around = self._called_lambda(statement, node)
        function = self.inference.index.places[statement].function
        if around is None:
            return self.of(statement) or comprehensions.per_batch(self.loops, statement, node, function)
        asked = demands(statement, function, ())
        if asked is None:
            return None
        question = (around, asked, None)
        return self.recorder.kept(
            self._by_function, question, lambda: self._search(statement, function, asked, start=around)
        )

    def runs_in_calls(self, statement: ast.stmt, node: ast.expr) -> bool:
        """Whether an expression of the statement is in a lambda whose calls are known."""
        return self._called_lambda(statement, node) is not None

    def _called_lambda(self, statement: ast.stmt, node: ast.expr) -> FunctionInfo | None:
        """The innermost lambda around an expression, if calls of it are known or a framework calls it."""
        if statement not in self.inference.index.lambdas:
            return None
        around = finding.lambda_around(self.inference.index, node, statement)
        if around is None or not (calling.possible_callers(self.inference, around) or self.own_hot_path(around)):
            return None
        return around

    def of(self, statement: ast.stmt, ignore_sampling: bool = False) -> HotPath | None:
        """The hot path to a statement; None if it is not hot, unknown, or behind a sampling guard."""
        question = (statement, ignore_sampling)
        return self.recorder.kept(self._known, question, lambda: self._of(statement, ignore_sampling))

    def _of(self, statement: ast.stmt, ignore_sampling: bool) -> HotPath | None:
        hot_path = self._per_step(statement, ignore_sampling) or self._inferred(statement, ignore_sampling)
        return None if hot_path is None else hot_path._replace(each=self._each(statement, hot_path.loop))

    def _inferred(self, statement: ast.stmt, ignore_sampling: bool) -> HotPath | None:
        """The inference loop around a statement that nothing else repeats."""
        if (hot_path := self.within(statement, ignore_sampling, infers=True)) in (None, _AS_THE_FUNCTION):
            return None
        reached = demands(statement, self.inference.index.places[statement].function, ()) is not None
        return hot_path if reached or ignore_sampling else None

    def _only_inferred(self, statement: ast.stmt, function: FunctionInfo) -> bool:
        """Whether nothing but an inference loop repeats the statement, whoever calls the function."""
        asked = demands(statement, function, ())
        is_in_one = asked is not None and self._inferred(statement, ignore_sampling=False) is not None
        return is_in_one and self._search(statement, function, asked or frozenset()) is None

    def _each(self, statement: ast.stmt, hot: ast.stmt | None) -> str:
        """The targets of the innermost `for` loop around the statement, if that loop is inside the step."""
        function = self.inference.index.places[statement].function
        for loop in self.loops.enclosing(statement):
            if loop is hot or self.loops.classify(loop, function).kind is not LoopKind.OTHER:
                return ""
            if isinstance(loop, ast.While) or isinstance(loop.body[-1], ast.Break):
                continue
            targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
            return ", ".join(map(ast.unparse, targets)).removeprefix("_")
        return ""

    def _per_step(self, statement: ast.stmt, ignore_sampling: bool) -> HotPath | None:
        hot_path = self.within(statement, ignore_sampling)
        if hot_path is None:
            return None
        function = self.inference.index.places[statement].function
        asked = demands(statement, function, ())
        if hot_path is not _AS_THE_FUNCTION:
            return hot_path if asked is not None or ignore_sampling else None
        if asked is None:
            return None
        question = (function, asked, statement if asks_types(statement, function) else None)
        return self.recorder.kept(self._by_function, question, lambda: self._search(statement, function, asked))

    def within(self, statement: ast.stmt, ignore_sampling: bool = False, infers: bool = False) -> HotPath | None:
        """The frequency of the statement within its own function; with `infers`, inference loops repeat it, too."""
        where = Where(statement, None, ignore_sampling, infers)
        passed: list[tuple[Where, Node]] = []
        found: HotPath | Where | None = where
        dependencies = NOTHING
        while isinstance(found, Where):
            where = found
            if where in self._ways:
                found, dependencies = self._ways[where]
                self.recorder.here.add(dependencies)
            else:
                found, own = self.recorder.followed(lambda: self._outwards(where))  # noqa: B023
                passed.append((where, own))
        for where, own in reversed(passed):
            dependencies = node_of({dependencies, own})
            self._ways[where] = found, dependencies
        return found

    def of_call(self, record: CallSite, ignore_sampling: bool = False) -> HotPath | None:
        """The frequency of a call within its own function: a comprehension over a loader makes it for each batch."""
        found = self.within(record.statement, ignore_sampling)
        if found not in (None, _AS_THE_FUNCTION):
            return found
        return comprehensions.per_batch(self.loops, record.statement, record.node, record.function) or found

    def _outwards(self, where: Where) -> HotPath | Where | None:
        """The frequency decided by the next block or loop around a statement, or the statement to continue at."""
        place = self.inference.index.places[where.statement]
        parent, leaves = place.parent, where.leaves
        if not where.ignores_sampling and self._skipped_before(where.statement):
            return None
        if parent is None:
            return None if leaves is ast.Raise else _AS_THE_FUNCTION
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            if place.field == "body":
                info = self.loops.classify(parent, place.function)
                if (info.kind is LoopKind.BATCH or (where.infers and info.infers)) and leaves is None:
                    return self._loop_path(parent, place.function, info)
                if info.kind in (LoopKind.BATCH, LoopKind.EPOCH):
                    return None
            leaves = None if leaves is ast.Break else leaves
        elif not where.ignores_sampling and self._guarded(parent, place.field, place.function):
            return None
        elif isinstance(parent, ast.If) and leaves is None:
            leaves = jump_at_end(place.block)
            leaves = None if leaves is ast.Continue else leaves
        return where._replace(statement=parent, leaves=leaves)

    def sampled(self, statement: ast.stmt) -> bool:
        """Whether the statement would run in every step without a sampling guard around it."""
        return self.of(statement) is None and self.of(statement, ignore_sampling=True) is not None

    def sampled_on_the_way(self, statement: ast.stmt) -> bool:
        """Whether it would run in every step without a sampling guard around it or around a call that leads to it."""
        if self.sampled(statement):
            return True
        if self.of(statement) is not None or self.within(statement, ignore_sampling=True) is not _AS_THE_FUNCTION:
            return False
        function = self.inference.index.places[statement].function
        asked = demands(statement, function, ())
        return asked is not None and self._search(statement, function, asked, ignore_sampling=True) is not None

    def guarded_in_expression(self, statement: ast.stmt, call: ast.expr) -> bool:
        """Whether the call runs only sometimes within its statement: `x.item() if step % n == 0 else None`.

        Or never, because no path reaches it: `flag and x.any()` if all callers leave the flag at False.
        """
        if self.recorder.kept(self._sampled_parts, call, lambda: self._sampled_within(statement, call)):
            return True
        function = self.inference.index.places[statement].function
        asked = demands(statement, function, (), call)
        if asked is None:
            return True
        around = self._called_lambda(statement, call)
        is_asked = asked != demands(statement, function, ()) or asks_types(statement, function)
        if not is_asked or (around is None and self.within(statement) is not _AS_THE_FUNCTION):
            return False
        return self._guarded_calls.ask(
            (self, call),
            lambda: (
                self._search(statement, function, asked, call, start=around) is None
                and not self._only_inferred(statement, function)
            ),
            default=lambda: True,  # mutually recursive functions: the cycle adds no path that is not searched already
        )

    def _sampled_within(self, statement: ast.stmt, call: ast.expr) -> bool:
        """Whether a test in the statement is a sampling guard of the call."""
        lookup = self._lookup(self.inference.index.places[statement].function)
        return any(
            is_sampling_guard(test, taken, lookup, self._once(statement, _assigning(statement, inside)))
            for test, taken, inside in tests_around(statement, call)
        )

    def _search(
        self,
        statement: ast.stmt,
        function: FunctionInfo,
        asked: frozenset[Formula],
        node: ast.expr | None = None,
        ignore_sampling: bool = False,
        start: FunctionInfo | None = None,
    ) -> HotPath | None:
        """The hot path to a statement as hot as its function: by contract, or by the shortest chain of hot calls.

        `start` is the lambda around what is asked for, which then is as hot as this.

        A chain whose arguments do not lead to the statement does not count. A chain from training wins over a
        shorter one from evaluation, and each of them over one from an inference loop.
        """
        evaluation = likely = inferred = None
        first = Way(start or function, asked=settings.asked_of_object(function, asked))
        pending = deque([first])
        unproven: deque[tuple[Way, PossibleCall]] = deque()
        seen: set[tuple[object, ...]] = {(first.function, asked, None, first[3:])}
        free = set[FunctionInfo]()  # those that were reached without a condition: another way to them finds no more
        while (pending or (unproven and evaluation is None)) and len(seen) <= bounds.MOST_CALLERS_OF_CALLERS:
            only = None
            if pending:
                way_here = pending.popleft()
            else:
                way_here, only = unproven.popleft()
            current, steps, path, required, asked_of_object, needed = way_here
            home = self.home(current)
            own = home.own_hot_path(current) if only is None and not required else None
            if own is not None:
                found = own._replace(because=shortened((*path, *own.because)))
                is_likely = isinstance(own.because[0], Unproven)
                if not is_likely and not found.evaluates:
                    return found
                likely, evaluation = (likely or found, evaluation) if is_likely else (likely, evaluation or found)
            for call in home.calls_of(current, required) if only is None else [only]:
                record, says, handed = call
                if any(step.record is record for step in steps):
                    continue  # this call is on the path already: round it would go, with ever more conditions
                there = self.home(record.function)
                caller, hot_path, inferring = there.caller(record), None, None
                # A training step counts as made each time, but for one that a test holds back for long.
                is_trained = roles.takes_a_step(current) and not is_rare(record.function.place_of(record.statement))
                if there.entry_points.may_be_hot(record.statement):
                    in_function = None if caller.is_lambda else there.of_call(record, ignore_sampling or is_trained)
                    hot_path = _AS_THE_FUNCTION if caller.is_lambda else in_function
                    if inferred is None and in_function in (None, _AS_THE_FUNCTION) and not caller.is_lambda:
                        inferring = there.within(record.statement, ignore_sampling, infers=True)
                        hot_path = inferring if hot_path is None and inferring is not _AS_THE_FUNCTION else hot_path
                if hot_path is None:
                    continue
                way = (*steps, Step(record, shows=not says and not current.is_lambda))
                plain = record if isinstance(record, CallRecord) else None
                is_proven = plain is not None and says != ""
                is_proven = is_proven or (only is None and calling.reaches(home.inference, record, current))
                if only is None and not is_proven and not calling.may_be_by_hierarchy(home.inference, record, current):
                    continue
                if hot_path is _AS_THE_FUNCTION and caller in free and inferring in (None, _AS_THE_FUNCTION):
                    continue
                left = demands(statement, function, way, node)
                if left is None:
                    continue
                if only is not None:
                    if plain is not None and calling.grade(home.inference, plain, current) is not Grade.BY_HIERARCHY:
                        continue
                elif not is_proven:
                    unproven.append((way_here, call))
                    continue
                if not (ignore_sampling or is_trained) and there.guarded_in_expression(record.statement, record.node):
                    continue
                is_own = plain is not None and calls_own_method(plain.call.func, plain.function)
                if plain is not None and not is_own and any(self._is_never_so(each, plain) for each in asked_of_object):
                    continue
                now_needed = receivers.needed(there.inference, record, current, needed)
                if now_needed is None:
                    continue
                typed = following.depends_on_types(statement, function, way)
                if typed and not following.arrives(self._inference_of, statement, function, way, node):
                    continue
                text = says or f"{current.shown_name} is called here in every step"
                shown = (*path, Because(record.node.lineno, text, record.function.index.path))
                if only is not None:
                    before = path if plain is None else shown
                    text = says if plain is None else hierarchy.says(home.inference, plain, current)
                    shown = (*before, Unproven(record.node.lineno, text, record.function.index.path))
                if inferring not in (None, _AS_THE_FUNCTION):
                    inferred = inferring._replace(loop=None, because=shortened((*shown, *inferring.because)))
                    if hot_path is inferring:
                        continue
                if hot_path is not _AS_THE_FUNCTION:
                    found = hot_path._replace(loop=None, because=shortened((*shown, *hot_path.because)))
                    if not found.evaluates:
                        return found
                    evaluation = evaluation or found
                    continue
                handed = still_handed(handed, record.function) if caller is record.function else ()
                conditions = settings.asked_of_object(record.function, left) | (
                    asked_of_object if is_own else frozenset()
                )
                following_way = Way(caller, way, shown, handed, conditions, now_needed)
                if (question := (caller, left, record if typed else None, following_way[3:])) not in seen:
                    seen.add(question)
                    pending.append(following_way)
                    if plain is not None and not (left or typed or handed or conditions or now_needed):
                        free.add(caller)
        return evaluation or likely or inferred

    def caller(self, record: CallSite) -> FunctionInfo:
        """The function that makes a call of this file, or the lambda whose calls make it."""
        return self._called_lambda(record.statement, record.node) or record.function

    def _is_never_so(self, asked: settings.Asked, record: CallRecord) -> bool:
        """Whether the object that the call uses has not the attributes that the path needs in a method."""
        inference = self._inference_of(asked.method)
        made = settings.making(self._inference_of(record.function), record, asked.method)
        question = (asked, None if made is None else made.call)
        return self.recorder.kept(self._never_so, question, lambda: settings.rule_out(inference, asked, made))

    def home(self, function: FunctionInfo) -> FrequencyQuestions:
        """The frequencies of the function's file."""
        program = self.inference.program
        if program is None or function.index is self.inference.index:
            return self
        return program.file_of(function.index).frequency

    def _inference_of(self, function: FunctionInfo) -> ValueQuestions:
        return self.home(function).inference

    def own_hot_path(self, function: FunctionInfo) -> HotPath | None:
        """Why the function is hot whoever calls it: a framework's contract, or the user's configuration."""
        if function.is_module:
            return None
        row = function.row
        contract = self.inference.contract(function)
        if contract is not None and contract.hot:
            step = Unproven if contract.is_likely else Because
            says = step(contract.row or row, contract.says, contract.path or self.inference.index.path)
            return HotPath(None, Frequency.HOOK, (says,), function.name, only_evaluates=contract.evaluates)
        qualified = f"{function.cls.name}.{function.name}" if function.cls is not None else function.name
        if function.name in self.hot_functions or qualified in self.hot_functions:
            says = Because(row, "configured as a hot function", self.inference.index.path)
            return HotPath(None, Frequency.FUNCTION, (says,), function.name)
        return None

    def calls_of(self, function: FunctionInfo, handed: tuple[Handing, ...] = ()) -> Iterator[PossibleCall]:
        """Calls that may reach the function; with `handed`, only the call that hands over what the function calls."""
        contract = self.inference.contract(function)
        if contract is not None and not contract.hot:
            return iter(())  # no step calls it
        return possible_calls.of(self.inference, function, handed)

    def _loop_path(self, loop: Loop, function: FunctionInfo, info: LoopInfo) -> HotPath:
        loader = self.loops.loader_in(loop.iter, function) if not isinstance(loop, ast.While) else None
        if info.trains:
            frequency = Frequency.TRAINING_LOOP
        elif info.is_rollout or info.infers:
            frequency = Frequency.ROLLOUT_LOOP if info.is_rollout else Frequency.INFERENCE_LOOP
        elif names_evaluation(function.name) or names_evaluation(loader or "") or is_of_evaluating_script(function):
            frequency = Frequency.EVALUATION_LOOP
        else:
            frequency = Frequency.BATCH_LOOP
        because = Because(loop.lineno, info.says, self.inference.index.path)
        return HotPath(loop, frequency, (because, *info.because))

    # -- sampling guards -----------------------------------------------------------------------------------------

    def _guarded(self, parent: ast.stmt, field: str, function: FunctionInfo) -> bool:
        """Whether statements in this field of the parent run only sometimes."""
        if field == "handlers" and isinstance(parent, ast.Try):
            return True
        if not isinstance(parent, ast.If):
            return False
        test, block = parent.test, parent.body if field == "body" else parent.orelse

        def answer() -> bool:
            other = parent.orelse if field == "body" else parent.body
            if warns(block) or (field == "body" and waits_for_interval(test, block)):
                return True
            if not is_guard(test, field == "body", other, self._lookup(function), self._once(parent, block)):
                return False
            return field != "body" or not self.loops.is_training_period(parent, function)

        return self.recorder.kept(self._guards, (parent, field), answer)

    def _once(self, at: ast.stmt, block: list[ast.stmt]) -> Callable[[ast.expr, bool], bool]:
        return FirstPass(self, at, block).alone_enters

    def _skipped_before(self, statement: ast.stmt) -> bool:
        """Whether an `if step % n: continue`, or a `try` that leaves by itself, comes before in the same block."""
        place = self.inference.index.places[statement]
        return self._first_skip(place.block, place.function) < place.position

    def _first_skip(self, block: list[ast.stmt], function: FunctionInfo) -> int:
        """The position of the first such statement in the block; the block's length if there is none."""
        return self.recorder.kept(self._first_skips, id(block), lambda: self._find_first_skip(block, function))

    def _find_first_skip(self, block: list[ast.stmt], function: FunctionInfo) -> int:
        for position, earlier in enumerate(block):
            if isinstance(earlier, ast.If) and not earlier.orelse and jump_at_end(earlier.body) is not None:
                once = self._once(earlier, block[position + 1 :])
                if is_guard(earlier.test, False, earlier.body, self._lookup(function), once):
                    return position
            elif isinstance(earlier, ast.Try) and leaves_but_for_errors(earlier):
                return position
        return len(block)

    def bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """The values that the function's plain assignments bind the name to."""
        return self._lookup(function)(name)

    def _lookup(self, function: FunctionInfo) -> Callable[[str], list[ast.expr]]:
        note = function.index.by_name if function.is_module else function.note
        bindings = note(("simple bindings", function), lambda: bindings_in(function))
        return lambda name: bindings.get(name, [])


def _assigning(statement: ast.stmt, values: list[ast.expr]) -> list[ast.stmt]:
    """The assignment with only this value: `x = f() if x is None else x`, `x = x or f()`; empty if not one value."""
    if not isinstance(statement, ast.Assign) or len(values) != 1:
        return []
    return [ast.Assign(targets=statement.targets, value=values[0])]
