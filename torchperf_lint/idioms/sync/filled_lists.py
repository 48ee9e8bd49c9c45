"""Lists that loops fill with numbers: by which statement, and the loop behind which they are read."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms import surroundings
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import HotPath, Model


def adds_a_list(read: HostRead) -> bool:
    """`rates += [x.item()]`, which is `rates.append(x.item())`."""
    added = read.parent.value if isinstance(read.parent, cst.AugAssign) else None
    is_only = isinstance(added, cst.List) and len(added.elements) == 1
    return is_only and isinstance(added, cst.List) and added.elements[0].value is read.site.node


def filled_in(model: Model, read: HostRead, name: str) -> HotPath | None:
    """The loop, or the nearest one around it in the function, that alone fills the list, as the loop of a hot path."""
    path, loop = read.hot_path, read.hot_path.loop
    while loop is not None:
        uses = model.uses(name, read.site, path)
        if surroundings.only_filled(model, uses):
            return path if surroundings.ends_plainly(model, path, uses) else None
        around = (each.parent for each in model.place_of(loop).outwards())
        loop = next((each for each in around if isinstance(each, (ast.For, ast.AsyncFor, ast.While))), None)
        path = path._replace(loop=loop)
    return None
