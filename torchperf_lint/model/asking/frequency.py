"""Questions about how often code of one file runs: a statement, a part of one, a loop, a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.asking.values import ValueModel
from torchperf_lint.model.callgraph import calling
from torchperf_lint.model.domain.flows import still_handed
from torchperf_lint.model.frequency import settings
from torchperf_lint.model.frequency.rare_moments import has_long_period

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.flows import Handing
    from torchperf_lint.model.domain.frequency import HotPath, Loop, LoopInfo
    from torchperf_lint.model.domain.interfaces import FrequencyQuestions
    from torchperf_lint.model.frequency.settings import Constructions, Stored
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo


class FrequencyModel(ValueModel):
    """The part of the model that knows how often code runs."""

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly not hot, by names alone: to be asked before any value."""
        return self._frequency.may_be_hot(statement)

    def hot_path_of(self, statement: ast.stmt, node: ast.expr | None = None) -> HotPath | None:
        """The loop, hook or call path that runs the statement in every step; None if not hot, unknown or sampled.

        With `node`, a part of the statement: None also if a condition in the statement stands before that part.
        """
        hot_path = self._frequency.of(statement) if node is None else self._frequency.of_part(statement, node)
        if hot_path is None or node is None:
            return hot_path
        return None if self._frequency.guarded_in_expression(statement, node) else hot_path

    def is_sampled(self, statement: ast.stmt) -> bool:
        """Whether a sampling guard in its function is all that keeps the statement from running in every step."""
        return self._frequency.sampled(statement)

    def lets_few_steps_through(self, guard: ast.If) -> bool:
        """Whether a sampling guard lets one step of many through: `step % 1000 == 0`, `step % save_every == 0`."""
        return has_long_period(guard.test) and self.is_sampled(guard.body[0])

    def is_sampled_on_the_way(self, statement: ast.stmt, node: ast.expr | None) -> bool:
        """The same for guards around the calls that lead to it, and for those around `node` in the statement."""
        guarded = node is not None and self._frequency.guarded_in_expression(statement, node)
        return guarded or self._frequency.sampled_on_the_way(statement)

    def stored_by_constructor(self, cls: ClassInfo, name: str) -> Stored | None:
        """What a constructor of the class stores as `self.name`; None if something else may set it."""
        return settings.stored_by_constructor(self._inference, cls, name)

    def constructions(self, init: FunctionInfo) -> Constructions | None:
        """The calls that run the constructor; None if objects may be made in ways that are not known."""
        return settings.constructions_below(self._inference, init)

    def hot_bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """The expressions that the function's plain assignments bind the name to in every step."""
        bound = self.bindings(function, name)
        statements = function.note(("bound at", function), lambda: _bound_at(function)) if bound else {}
        return [each for each in bound if each in statements and self.hot_path_of(statements[each]) is not None]

    def loop_info(self, loop: Loop) -> LoopInfo:
        """The kind of a loop of this file, and whether it trains."""
        return self._loops.classify(loop, self.place_of(loop).function)

    def walks_loader(self, loop: Loop) -> bool:
        """Whether a loop of this file walks over a data loader, by its value or its name."""
        return not isinstance(loop, ast.While) and self.gives_batches(self.place_of(loop).function, loop.iter)

    def gives_batches(self, function: FunctionInfo, iterable: ast.expr) -> bool:
        """Whether the iterable walks over a data loader, by its value or its name."""
        return self._loops.loader_in(iterable, function) is not None

    def is_hot_under(self, statement: ast.stmt, allowed: Callable[[ast.expr], bool]) -> bool:
        """Whether a chain of calls runs the statement in every step under no tests but allowed ones.

        The tests are those of the branches around the statement, and around each call of the chain.
        """
        function = self.place_of(statement).function
        return _is_hot_under(self._frequency, statement, function, allowed, frozenset({function}))


def _bound_at(function: FunctionInfo) -> dict[ast.expr, ast.stmt]:
    """The values that statements of the function bind, return or yield, each with its statement."""
    nodes = (node for node in function.nodes if isinstance(node, ast.stmt))
    return {node.value: node for node in nodes if isinstance(getattr(node, "value", None), ast.expr)}  # type: ignore[attr-defined]


def _is_hot_under(
    frequency: FrequencyQuestions,
    statement: ast.stmt,
    function: FunctionInfo,
    allowed: Callable[[ast.expr], bool],
    seen: frozenset[FunctionInfo],
    handed: tuple[Handing, ...] = (),
) -> bool:
    within = frequency.within(statement)
    if within is None or not all(map(allowed, function.place_of(statement).tests(within.loop))):
        return False
    if within.loop is not None or (not handed and frequency.own_hot_path(function) is not None):
        return True
    if len(seen) > bounds.MOST_CALLS_TO_CONDITION:
        return False
    return any(
        record.function not in seen
        and (says or calling.reaches(frequency.inference, record, function))
        and _is_hot_under(
            frequency.home(record.function),
            record.statement,
            record.function,
            allowed,
            seen | {record.function},
            still_handed(above, record.function),
        )
        for record, says, above in frequency.calls_of(function, handed)
    )
