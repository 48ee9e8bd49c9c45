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


def split_whole(iterable: ast.expr) -> ast.expr | None:
    """`x` of `x.split(size)` and `torch.split(x, size)`, in pieces of one size along the first dimension."""
    node = walked(iterable)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "split":
        return None
    whole, *given = node.args if dotted(node.func.value) == "torch" and node.args else [node.func.value, *node.args]
    if len(given) != 1 or node.keywords or isinstance(given[0], (ast.List, ast.Tuple)):
        return None
    return None if isinstance(given[0], ast.Constant) and not isinstance(given[0].value, int) else whole


def is_listed(iterable: ast.expr, function: FunctionInfo) -> bool:
    """Whether the loop goes over what the code lists: `[resnet18, resnet50]`, or the only name of such a list."""
    node = walked(iterable)
    if isinstance(node, ast.Name) and function.bound_names.count(node.id) == 1:
        named = (each for each in function.statements if isinstance(each, ast.Assign) and len(each.targets) == 1)
        node = next((each.value for each in named if dotted(each.targets[0]) == node.id), node)
    return isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.Set))
