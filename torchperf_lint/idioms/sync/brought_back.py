"""`y = y.to(device)`, then `y.cpu()`: parts of a loader's batch that come back to the host as they left it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Moved
from torchperf_lint.idioms import writes
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import WHOLE_BATCH, Kind, Origin
from torchperf_lint.model.handles import dotted

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.syntax import cst

_SAME = VIEW_METHODS | {"detach"}


def was_on_host(model: Model, site: Site, copied: cst.BaseExpression) -> bool:
    """Whether it is a part of a batch that code of the project has moved to the device, and not written to there."""
    value, node = model.value(copied), model.ast_of(copied)
    is_moved = any(isinstance(step, Moved) for step in value.because)
    if value.kind is not Kind.PYTREE or value.ref == WHOLE_BATCH or not is_moved:
        return False
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    function = model.function_of(site)
    if node is None or model.value_in(function, node).origin is not Origin.BATCH:
        return False
    path = dotted(node.value if isinstance(node, ast.Subscript) else node)
    handed = (each for each, _ in writes.handed_to_writers(model, function))
    is_written = path is not None and writes.writes_in_place(model, path, site)
    return path is not None and not is_written and all(dotted(each) != path for each in handed)
