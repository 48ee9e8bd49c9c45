"""`x.to(d)` of memory that is not pinned, or written to later: a copy of it in pinned memory needs no wait."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.idioms.transfer.construction import device_text
from torchperf_lint.idioms.transfer.uploads import makes_on_device
from torchperf_lint.idioms.written_helpers import SENT, defined
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model

_DEVICES = (Kind.DEVICE, Kind.NUMBER, Kind.STRING)
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
    if shape.method_name(move.call) == "cuda":
        if model.defines_cuda and not model.value(move.moved).is_tensor:
            return NoFix.FORM  # an object without `to`, perhaps
        if move.device is not None and not _is_surely_a_device(model, move, move.device):
            return NoFix.DEVICE_NOT_AT_HAND  # for None it is the current device, where `to` has none
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


def _is_surely_a_device(model: Model, move: Move, node: cst.BaseExpression) -> bool:
    """Whether an expression is a device or the number of one by more than its name, which None may have, too."""
    value = model.value(node)
    if value.kind not in _DEVICES:
        return False
    if isinstance(node, cst.Name):
        function = model.function_of(move.site)
        default = function.defaults.get(node.value)
        if isinstance(default, ast.Constant) and default.value is None:
            return False
        made = model.only_binding(function, node.value)
        return value.kind is not Kind.DEVICE or made is not None or value.device is Device.CUDA
    return value.kind is not Kind.DEVICE or value.device is Device.CUDA
