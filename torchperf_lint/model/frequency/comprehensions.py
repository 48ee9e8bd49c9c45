"""Comprehensions that take a batch per element: `[model(x.to(device)).cpu() for x, _ in loader]`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.frequency import Frequency, HotPath, names_evaluation
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.frequency.loops import Loops
    from torchperf_lint.model.syntax.index import FunctionInfo


def per_batch(loops: Loops, statement: ast.stmt, node: ast.expr, function: FunctionInfo) -> HotPath | None:
    """The hot path to an expression that a comprehension of the statement computes for each batch of a loader."""
    for comprehension in function.index.comprehensions.get(statement, ()):
        for position, generator in enumerate(comprehension.generators):
            if not _repeats(comprehension, position, node):
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
    return any(each is node for part in repeated for each in subtree(part))
