"""Comprehensions that take a batch per element: `[model(x.to(device)).cpu() for x, _ in loader]`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.frequency import Frequency, HotPath, names_evaluation
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import children, own_expressions, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import LoopQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_USE_UP = frozenset("sum max min sorted list tuple set frozenset dict join extend update mean fmean".split())
"""Functions and methods that take all items of a generator at once."""


def per_batch(loops: LoopQuestions, statement: ast.stmt, node: ast.expr, function: FunctionInfo) -> HotPath | None:
    """The hot path to an expression that a comprehension of the statement computes for each batch of a loader."""
    for comprehension in function.index.comprehensions.get(statement, ()):
        if isinstance(comprehension, ast.GeneratorExp) and not _is_taken(statement, comprehension):
            continue
        for position, generator in enumerate(comprehension.generators):
            if not _repeats(comprehension, position, node) or any(map(_asks_for_one, generator.ifs)):
                continue
            loader = loops.loader_in(generator.iter, function)
            if loader is not None:
                evaluates = names_evaluation(function.name) or names_evaluation(loader)
                frequency = Frequency.EVALUATION_LOOP if evaluates else Frequency.BATCH_LOOP
                says = f"this comprehension takes a batch per element from `{loader}`"
                return HotPath(None, frequency, (Because(comprehension.lineno, says, function.index.path),))
    return None


def _repeats(comprehension: ast.expr, position: int, node: ast.expr) -> bool:
    """Whether the expression is computed again for each item of one of the comprehension's generators."""
    if isinstance(comprehension, ast.DictComp):
        repeated: list[ast.AST] = [comprehension.key, comprehension.value]
    else:
        repeated = [comprehension.elt]  # type: ignore[attr-defined]
    generators = comprehension.generators  # type: ignore[attr-defined]
    repeated += [*generators[position].ifs, *generators[position + 1 :]]
    return any(each is node for part in repeated for each in _computed(part))


def _computed(part: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are evaluated with a part of an expression: not what lambdas and inner generators hold back."""
    if not isinstance(part, (ast.Lambda, ast.GeneratorExp)):
        yield part
        used_up = part.args[0] if isinstance(part, ast.Call) and _uses_up(part) else None
        for each in children(part):
            yield from subtree(each) if each is used_up else _computed(each)


def _is_taken(statement: ast.stmt, generator: ast.expr) -> bool:
    """Whether a call in the statement takes all items of the generator: `sum(f(x) for x in loader)`."""
    calls = (each for each in own_expressions(statement) if isinstance(each, ast.Call))
    return any(_uses_up(each) and each.args[0] is generator for each in calls)


def _uses_up(call: ast.Call) -> bool:
    return last_name(call.func) in _USE_UP and bool(call.args) and isinstance(call.args[0], ast.GeneratorExp)


def _asks_for_one(test: ast.expr) -> bool:
    """`i == 0`: it holds for one of the items."""
    is_equal = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
    sides = [test.left, *test.comparators] if is_equal else []  # type: ignore[attr-defined]
    return any(isinstance(each, ast.Constant) for each in sides) and any(isinstance(each, ast.Name) for each in sides)
