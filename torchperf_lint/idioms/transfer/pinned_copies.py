"""`x.to(d)` of memory that is not pinned, or written to later: a copy of it in pinned memory needs no wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.idioms.transfer.construction import device_text
from torchperf_lint.idioms.transfer.uploads import makes_on_device
from torchperf_lint.idioms.written_helpers import SENT, defined
from torchperf_lint.syntax import edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model

_TITLE = "copy from pinned memory, and do not wait"
_ASSUMES = "nothing compiles or exports the code"


def sent(model: Model, move: Move) -> Fix | NoFix:
    """`_sent(x, d)` for `x.to(d)`, and the function `_sent` above the file's definitions."""
    site, tree = move.site, move.site.tree
    if may_be_scripted(model, model.function_of(site)):
        return NoFix.SCRIPTED
    torch, device = model.name_of("torch", site), device_text(model, move)
    if not move.plain or move.like or move.dtype is not None or move.non_blocking:
        return NoFix.FORM
    if device is None or shape.binds_or_defers(move.call):
        return NoFix.DEVICE_NOT_AT_HAND
    if torch is None or not tree.lossless or makes_on_device(model):
        return NoFix.NO_ROOM
    start, end = tree.span(move.call)
    if b"#" in tree.source.utf8[start:end]:
        return NoFix.NO_ROOM
    new = f"{SENT.name}({edits.text_of(tree, move.moved)}, {device[0]})"
    changed = edits.together(
        defined(model, SENT, torch, model.statement_of(site.node)), edits.replace(tree, move.call, new)
    )
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES)
