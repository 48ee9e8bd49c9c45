"""Loops over a generator of the project that moves each batch to the device before it yields it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.iterables import walked

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo


def moved_by(inference: ValueQuestions, loop: ast.For | ast.AsyncFor, function: FunctionInfo) -> str | None:
    """`for batch in batches(data, device)`: the text of the generator, if its own loop moves what it yields.

    None for another iterable, and for a generator of what is on the device already, such as parameters.
    """
    made = walked(loop.iter)
    generator = inference.frame_value(function, made.func).function if isinstance(made, ast.Call) else None
    if generator is None or not generator.is_generator:
        return None
    item: Value | None = inference.frame_value(function, made)
    while item is not None and item.kind is Kind.CONTAINER:
        item = item.element
    if item is None or not item.device.on_accelerator or not item.holds_tensors:
        return None
    loops = [(each.lineno, each.end_lineno or each.lineno) for each, _ in finding.loops_in(generator)]
    is_moved = any(
        (step.path or function.index.path) == generator.index.path
        and any(first <= step.row <= last for first, last in loops)
        for step in item.because
    )
    return dotted(made.func) if is_moved and isinstance(made, ast.Call) else None
