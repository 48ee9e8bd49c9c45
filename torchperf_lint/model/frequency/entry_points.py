"""Entry points of hot code by names alone: a cheap "certainly not hot" before any value is computed.

It errs on one side only: a statement that may be hot by name is checked properly in `execution.py`, and any other
cannot be hot by any evidence that `execution.py` accepts.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions, hooks, torchmetrics_api
from torchperf_lint.model.callgraph import callbacks, implicit, roles
from torchperf_lint.model.frequency import drawn_batches
from torchperf_lint.model.frequency.generators import yielding
from torchperf_lint.model.frequency.inference_loops import about_items, fed_back
from torchperf_lint.model.frequency.loop_bodies import step_loop
from torchperf_lint.model.frequency.loops import enclosing
from torchperf_lint.model.syntax.index import given_to, last_name
from torchperf_lint.model.syntax.iterables import counted, stride
from torchperf_lint.model.values.batches import items_moved
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.project.dependencies import DependencyRecorder, Memo
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Index

_HOOK_NAMES = frozenset({"forward", "backward", "step", torchmetrics_api.UPDATE}).union(
    *(table.hot for table in hooks.HOOK_TABLES)
)
_BACKWARD = ("backward", "manual_backward")
_TRAINING_CALLS = ("backward", "manual_backward", "step", "train_step", "training_step", "optimizer_step")
_MOVES = ("to", "cuda")
_LOADER_MAKERS = ("DataLoader", "prepare", "setup_dataloaders", "prepare_data_loader")
_ITERABLE_WORDS = ("loader", "_dl", "batch", "data", "iter", "dataset", "prefetch")
_CALLBACK_TAKERS = (
    *("Engine", "__init__", "step", ""),
    *hooks.EVENT_TAKERS,
    *hooks.FUNCTION_KEYWORDS,
    *hooks.FORWARD_HOOK_REGISTRARS,
    *hooks.MINIMIZERS,
)


class EntryPoints:
    """The loops and functions of one file that may be hot; in a program, functions that other files call may be."""

    def __init__(
        self,
        index: Index,
        hot_functions: tuple[str, ...],
        loader_names: tuple[str, ...],
        recorder: DependencyRecorder,
        program: ProjectQuestions | None = None,
    ) -> None:
        self._index = index
        self._program = program
        self._recorder = recorder
        self._known: Memo[FunctionInfo, bool] = recorder.memo()
        steps, self._dependencies = recorder.followed(
            lambda: frozenset[str]() if program is None else program.steps_called_in(index)
        )
        self._steps = sorted(steps)
        self._hot_functions, self._loader_names = hot_functions, loader_names
        self._looked_up = program is None and "getattr" in index.calls
        self._own = self._find_own()

    def renew(self) -> None:
        """The text of the file has changed."""
        self._own = self._find_own()

    def _find_own(self) -> OwnEntries:
        names = self._hot_functions, self._loader_names
        return own_entries(self._index, *names, tuple(self._steps), self._looked_up)

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly not hot."""
        function = self._index.places[statement].function
        if self._function_may_be_hot(function) or self.in_loop(statement):
            return True
        return statement in self._index.lambdas  # which anything may call

    def in_loop(self, statement: ast.stmt) -> bool:
        """Whether a loop that may take batches is around the statement in its function, or a comprehension in it."""
        place, reads = self._index.places[statement], self._index.reads
        if place.parent is None and statement not in self._index.comprehensions:
            return False
        self._recorder.here.add(self._dependencies)
        reads.asks("fact", "loops", *self._steps)
        if place.function.is_module:
            reads.whole()
        return reads.unheard(lambda: self._own.in_loop(statement))

    def _function_may_be_hot(self, function: FunctionInfo) -> bool:
        self._recorder.here.add(self._dependencies)
        self._index.reads.asks("fact", "entry", self._own.name_of[function], *self._steps)
        if function in self._own.reached:
            return True
        return self._program is not None and any(map(self._is_known_elsewhere, self._own.leading_to(function)))

    def _is_known_elsewhere(self, function: FunctionInfo) -> bool:
        return self._recorder.kept(self._known, function, lambda: self._known_elsewhere(function))

    def _known_elsewhere(self, function: FunctionInfo) -> bool:
        """Whether other files may call the function, or the one around it, which may return it."""
        program = self._program
        assert program is not None
        if function.cls is not None:
            self._index.reads.mentions(function.cls.name)
        outer = function.outer
        makes = outer is not None and outer.name == _maker_of(function)
        return program.known_elsewhere(function) or (makes and program.known_elsewhere(outer))  # type: ignore[arg-type]


def own_entries(
    index: Index,
    hot_functions: tuple[str, ...],
    loader_names: tuple[str, ...],
    steps: tuple[str, ...],
    looked_up: bool = False,
) -> OwnEntries:
    """The entries of a file, with the arguments of `OwnEntries`."""
    asked = hot_functions, loader_names, steps, looked_up
    return index.note(("own entries", *asked), lambda: index.reads.unheard(lambda: OwnEntries(index, *asked)))


class OwnEntries:
    """What the text of one file shows of where execution in every step may begin in it."""

    def __init__(
        self,
        index: Index,
        hot_functions: tuple[str, ...],
        loader_names: tuple[str, ...],
        steps_elsewhere: Iterable[str],
        looked_up: bool = False,
    ) -> None:
        """`steps_elsewhere` are names of functions elsewhere that make a training step; `looked_up`: methods count."""
        self._index = index
        self._named = {name.rpartition(".")[2] for name in hot_functions}
        self._loader_names = loader_names
        self._any_loop = any(index.calls_named(maker) for maker in _LOADER_MAKERS)
        self._any_count = "eval" in index.calls and "train" in index.calls
        self._loops: set[ast.stmt] = {
            loop for loop, owner in index.loops if self._may_take_batches(loop) or items_moved(loop, owner)
        }
        self._comprehending = {
            statement
            for statement, found in index.comprehensions.items()
            if any(self._may_give_batches(generator.iter) for each in found for generator in each.generators)
        }
        steps = {record.function.name for name in _BACKWARD for record in index.calls.get(name, ())}
        steps |= {*steps_elsewhere}
        self._loops |= {
            loop
            for name in (*_TRAINING_CALLS, *steps)
            for record in index.calls.get(name, ())
            for loop in (step_loop(record),)
            if loop is not None
        }
        self._loops |= {
            loop
            for record in index.calls.get("next", ())
            for loop in (step_loop(record),)
            if loop is not None and (record.call.args or isinstance(record.call.func, ast.Attribute))
        }
        self._loops |= {
            loop
            for name in index.calls
            if name in _MOVES or conventions.MOVING_HELPERS.search(name)
            for record in index.calls[name]
            for loop in enclosing(record.statement, index)[:1]
        }
        self._loops |= drawn_batches.loops_drawing(index)
        others = ((loop, owner) for loop, owner in index.loops if loop not in self._loops)
        self._loops |= {loop for loop, owner in others if fed_back(loop, owner) or about_items(loop, owner)}
        self._loops |= {loop for loop, owner in index.loops if loop in yielding(owner)}
        self.loops_by = repr((self._any_loop, self._any_count, sorted(steps)))
        self._in_loops: dict[int, bool] = {}
        self.name_of = _names_of(index.functions)
        self._callers: dict[FunctionInfo, list[FunctionInfo]] = {}
        self.reached = self._reachable(looked_up)

    def in_loop(self, statement: ast.stmt) -> bool:
        """Whether a loop that may take batches is around the statement in its function, or a comprehension in it."""
        if statement in self._comprehending:
            return True
        block = self._index.places[statement].block_id
        known = self._in_loops.get(block)
        if known is None:
            known = not self._loops.isdisjoint(enclosing(statement, self._index))
            self._in_loops[block] = known
        return known

    def leading_to(self, function: FunctionInfo) -> list[FunctionInfo]:
        """The function and those of the file that may lead to it by calls."""
        found = {function: None}
        pending = [function]
        while pending:
            for caller in self._callers.get(pending.pop(), ()):
                if caller not in found:
                    found[caller] = None
                    pending.append(caller)
        return list(found)

    def entry(self, function: FunctionInfo) -> str:
        """What there is to know of a function, as text."""
        return repr(function in self.reached or sorted(self.name_of[each] for each in self.leading_to(function)))

    def _may_take_batches(self, loop: ast.stmt) -> bool:
        """Whether one pass may take one batch, for reasons other than the training calls in it."""
        if isinstance(loop, ast.While):
            return False
        assert isinstance(loop, (ast.For, ast.AsyncFor))
        counts = counted(loop.iter)
        if counts is not None and (self._any_count or stride(loop.iter) is not None):
            return True
        return self._may_give_batches(loop.iter)

    def _may_give_batches(self, iterable: ast.expr) -> bool:
        """Whether the iterable may be a loader, by names, or count the batches of one."""
        if counted(iterable) is iterable:
            called = {last_name(each.func) for each in iterable.args if isinstance(each, ast.Call)}
            if "len" not in called:
                return False
        if self._any_loop:
            return True
        for node in subtree(iterable):
            name = last_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if name is not None:
                lower = name.lower()
                if name in self._loader_names or any(word in lower for word in _ITERABLE_WORDS):
                    return True
                if lower.endswith(conventions.LOADER_ENDINGS):
                    return True
        return False

    def _reachable(self, looked_up: bool) -> set[FunctionInfo]:
        """Functions with a hook's name, and all functions that a call in a possibly hot place may mean."""
        by_name: dict[str, list[FunctionInfo]] = {}
        for function in self._index.functions:
            for name in (function.called_as, *self._index.also_called(function.called_as)):
                by_name.setdefault(name, []).append(function)
        given = [
            callbacks.without_partial(argument)
            for taker in _CALLBACK_TAKERS
            for record in self._index.calls.get(taker, ())
            for argument in given_to(record.call)
        ]
        handed = {last_name(each.func if isinstance(each, ast.Call) else each) for each in given} - {None}
        found: set[FunctionInfo] = set()
        pending = [
            function
            for function in self._index.functions
            if function.name in self._named
            or function.name in handed
            or function.name in self._index.defaults
            or function.name in self._index.held
            or bool(self._index.also_called(function.called_as))
            or _maker_of(function) in handed
            or callbacks.takes_gradients(function)
            or callbacks.of_engine_and_batch(function) is not None
            or _is_handler(function)
            or _is_hook(function)
            or _is_registered(function)
            or implicit.may_run_implicitly(function)
            or roles.may_have(function)
            or (looked_up and function.cls is not None)
        ]
        meant_by: dict[FunctionInfo, list[FunctionInfo]] = {}
        for function in self._index.functions:
            for record in function.calls_made:
                meant = self._meant(record, by_name)
                if not meant:
                    continue
                meant_by.setdefault(function, []).extend(meant)
                for each in meant:
                    self._callers.setdefault(each, []).append(function)
                if self.in_loop(record.statement) or record.statement in self._index.lambdas:
                    pending += meant
        while pending:
            function = pending.pop()
            if function not in found:
                found.add(function)
                pending += meant_by.get(function, ())
        return found

    def _meant(self, record: CallRecord, by_name: dict[str, list[FunctionInfo]]) -> list[FunctionInfo]:
        """The functions of the file that a call may mean by its last name, and those passed to it.

        `x.f()` is a method or an attribute's value, `f()` is never a method.
        """
        func = record.call.func
        meant = by_name.get(last_name(func) or "", ())
        found = [f for f in meant if f.cls is None or f.name == "__init__" or isinstance(func, ast.Attribute)]
        if not found and not meant:
            found = [f for f in by_name.get("__call__", ()) if f.cls is not None]
        for given in (*record.call.args, *(keyword.value for keyword in record.call.keywords)):
            found += by_name.get(last_name(given) or "", ())
        return found


def _names_of(functions: list[FunctionInfo]) -> dict[FunctionInfo, str]:
    """A name for each function that tells it from the others of its file, and does not tell its row."""
    found: dict[FunctionInfo, str] = {}
    taken: Counter[str] = Counter()
    for function in functions:
        outer = "" if function.outer is None else found[function.outer]
        name = (
            f"{outer}.{function.cls.name}.{function.name}" if function.cls is not None else f"{outer}.{function.name}"
        )
        taken[name] += 1
        found[function] = f"{name} {taken[name]}"
    return found


def _maker_of(function: FunctionInfo) -> str | None:
    """The name that is called to obtain the function: that of the enclosing function, or the class of `__call__`."""
    if function.cls is not None:
        return function.cls.name if function.name == "__call__" else None
    return None if function.outer is None or function.outer is function.index.module else function.outer.name


def _is_hook(function: FunctionInfo) -> bool:
    """Whether the function is a method with a hook's name in a class with bases."""
    return function.name in _HOOK_NAMES and function.cls is not None and bool(function.cls.head.bases)


def _is_registered(function: FunctionInfo) -> bool:
    """Whether a decorator of the function, or of the class whose `__call__` it is, is named as one that registers."""
    added = function.cls if function.cls is not None and function.name == "__call__" else function
    decorators = getattr(added.node, "decorator_list", ())
    return any("regist" in (last_name(d.func if isinstance(d, ast.Call) else d) or "").lower() for d in decorators)


def _is_handler(function: FunctionInfo) -> bool:
    """Whether the function is decorated by a call like `@trainer.on(...)`."""
    return any(isinstance(d, ast.Call) and last_name(d.func) == "on" for d in function.decorators)
