"""What a loop walks, by its form: through `enumerate` and progress bars, and by which range it counts."""

from __future__ import annotations

import ast

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.syntax.names import last_name

_RANGES = ("range", "trange")


def walked(iterable: ast.expr) -> ast.expr:
    """`x` of `enumerate(x)` and of `tqdm(enumerate(x), total=n)`; anything else as it is."""
    while isinstance(iterable, ast.Call) and last_name(iterable.func) in conventions.WALK_ONE and iterable.args:
        iterable = iterable.args[0]
    return iterable


def counted(iterable: ast.expr) -> ast.Call | None:
    """The `range(...)` or `trange(...)` that a loop counts by, also under a progress bar; None for other loops."""
    node = walked(iterable)
    return node if isinstance(node, ast.Call) and last_name(node.func) in _RANGES else None


def stride(iterable: ast.expr) -> ast.expr | None:
    """`size` of `range(0, n, size)`, also under a progress bar; None for other loops."""
    counts = counted(iterable)
    return None if counts is None or len(counts.args) != 3 else counts.args[2]
