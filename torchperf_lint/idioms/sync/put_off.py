"""A number of a sum that only the running program knows well enough to leave on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.written_helpers import DEFERRED, SETTLED, defined
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model


class PutOff(NamedTuple):
    """What is added in the place of a read, the function that reads the sum, and the edits that define both."""

    kept: str
    convert: str
    definitions: tuple[Edit, ...]


def put_off(model: Model, read: HostRead, *, to_float: bool = False) -> PutOff | None:
    """`_deferred(x)` for `x.item()`; None where it would not give what the read gives, or there is no room for it.

    `to_float` says that the number is added to a float: there `float(x)` adds what `x.item()` does, whatever it is.
    """
    dtype, tree, torch = model.value(read.tensor).dtype or "", read.site.tree, model.name_of("torch", read.site)
    reads_float = dtype.startswith(("float", "bfloat")) and read.reader != "int"
    reads_any = not dtype and (read.reader == "item" or (read.reader == "float" and to_float))
    if torch is None or not (reads_float or reads_any):
        return None  # whole numbers would be read at once all the same
    start, end = tree.span(read.site.node)
    if not tree.lossless or b"#" in tree.source.utf8[start:end]:
        return None
    statement = model.statement_of(read.site.node)
    definitions = edits.together(*(defined(model, helper, torch, statement) for helper in (SETTLED, DEFERRED)))
    kept = f"{DEFERRED.name}({edits.text_of(tree, read.tensor)})"
    return None if definitions is None else PutOff(kept, SETTLED.name, definitions)
