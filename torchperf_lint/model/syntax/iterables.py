"""What a loop walks, by its form: through `enumerate` and progress bars, and by which range it counts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.syntax.names import dotted, last_name

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo

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


def is_listed(iterable: ast.expr, function: FunctionInfo) -> bool:
    """Whether the loop goes over what the code lists: `[resnet18, resnet50]`, or the only name of such a list."""
    node = walked(iterable)
    if isinstance(node, ast.Name) and function.bound_names.count(node.id) == 1:
        named = (each for each in function.statements if isinstance(each, ast.Assign) and len(each.targets) == 1)
        node = next((each.value for each in named if dotted(each.targets[0]) == node.id), node)
    return isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set))
