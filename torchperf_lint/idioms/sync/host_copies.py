"""`tag = back[t][b, tag].item()`: where one number tells where the next one is, the loop reads a copy on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings, writes
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.sync.element_loops import (
    are_numbers,
    is_asked_about,
    is_bound_before,
    is_element_read,
)
from torchperf_lint.knowledge.containers import CHANGE_LISTS
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_bound_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

    _Loop = ast.For | ast.While

_TITLE = "copy the tensor once, before the loop, and read the copy"
_ASSUMES = "it is small, so that to copy all of it takes less time than to wait for each element"
_ASSUMES_ALIKE = f"{_ASSUMES}, and the tensors of the list have one shape, dtype and device"
_PASS_ON = frozenset({"builtins.enumerate", "builtins.reversed", "builtins.zip"})


@outside_torchscript
def read_from_copy(model: Model, read: HostRead) -> Fix | NoFix:
    """`t_host = t.cpu()` before the outermost loop, and `t_host[i, j].item()` in it; the same for a list of tensors."""
    node, function = model.ast_of(read.tensor), model.function_of(read.site)
    base = node
    while isinstance(base, ast.Subscript):
        if not are_numbers(model, function, base.slice):
            return NoFix.FORM
        base = base.value
    if not isinstance(base, ast.Name) or base is node or _is_put_off(function, base):
        return NoFix.FORM
    if surroundings.is_spelled_out(model, read.site):
        return NoFix.FORM
    walk = _walk_that_binds(model, read, base.id)
    if walk is None:
        return _one_tensor(model, read, base)
    return _list_of_tensors(model, read, base, walk)


def _is_put_off(function: FunctionInfo, node: ast.AST) -> bool:
    """Whether an expression is evaluated by a lambda or a generator, perhaps when the tensor is another one."""
    around: ast.AST | None = node
    while around is not None and not isinstance(around, (ast.stmt, ast.Lambda, ast.GeneratorExp)):
        around = function.parents.get(around)
    return not isinstance(around, ast.stmt)


def _walk_that_binds(model: Model, read: HostRead, name: str) -> ast.For | None:
    """The loop around the read that takes the tensor from a list."""
    loops = (each for each in model.place(read.site.node).loops() if isinstance(each, ast.For))
    return next((each for each in loops if name in _names(each.target)), None)


def _one_tensor(model: Model, read: HostRead, tensor: ast.Name) -> Fix | NoFix:
    function = model.function_of(read.site)
    value, loop = model.value_in(function, tensor), _outermost(model, read, tensor.id)
    if loop is None or not value.is_tensor or not value.device.on_accelerator:
        return NoFix.FORM
    bound = tensor.id not in function.bound_names or is_bound_before(model, function, tensor.id, loop)
    if not bound or is_asked_about(model, read, loop, tensor.id):
        return NoFix.VARIES
    if writes.may_write(model, function, [tensor], loop.body):
        return NoFix.MAY_BE_WRITTEN
    name = _name(model, function, loop, tensor.id)
    return _copied(model, read, loop, f"{name} = {tensor.id}.cpu()", [_renamed(model, tensor, name)], _ASSUMES)


def _list_of_tensors(model: Model, read: HostRead, tensor: ast.Name, walk: ast.For) -> Fix | NoFix:
    function, torch = model.function_of(read.site), model.name_of("torch", read.site)
    walked = _walked(model, function, walk.iter)
    loop = None if walked is None else _outermost(model, read, walked.id)
    if walked is None or loop is None or torch is None or not _only_reads_elements(model, function, walk, tensor.id):
        return NoFix.FORM
    held = model.value_in(function, walked)
    is_list = held.kind is Kind.CONTAINER and held.ref == "list" and held.element is not None and held.element.is_tensor
    if not is_list or walked.id in function.parameter_names or _is_filled(loop, walked.id):
        return NoFix.SHAPE_UNKNOWN
    if any(model.value_in(function, each).holds_tensors for each in writes.writes_of(loop)):
        return NoFix.MAY_BE_WRITTEN
    name = _name(model, function, loop, walked.id)
    line = f"{name} = {torch}.stack({walked.id}).cpu().unbind() if {walked.id} else {walked.id}"
    return _copied(model, read, loop, line, [_renamed(model, walked, name)], _ASSUMES_ALIKE)


def _outermost(model: Model, read: HostRead, name: str) -> _Loop | None:
    """The outermost loop around the read that is no loop of steps, and does not bind the name."""
    found: _Loop | None = None
    for loop in model.place(read.site.node).loops():
        if isinstance(loop, ast.AsyncFor) or model.loop_info(loop).kind is not LoopKind.OTHER:
            break
        if name in names_bound_in(loop):
            break
        found = loop
    return None if model.may_be_rebound(name) else found


def _walked(model: Model, function: FunctionInfo, node: ast.expr) -> ast.Name | None:
    """`back` of `reversed(back[: n - 1])`."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            node = node.value
        elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            if model.value_in(function, node.func).ref not in _PASS_ON:
                return None
            node = node.args[0]
        else:
            return None
    return node


def _only_reads_elements(model: Model, function: FunctionInfo, walk: ast.For, name: str) -> bool:
    """Whether the loop does nothing with its tensor but read elements: `idx[b, tag].item()`."""
    uses = [each for part in walk.body for each in subtree(part) if isinstance(each, ast.Name) and each.id == name]
    return bool(uses) and all(is_element_read(model, function, each) for each in uses)


def _is_filled(loop: _Loop, name: str) -> bool:
    filled = (each.value for each in subtree(loop) if isinstance(each, ast.Attribute) and each.attr in CHANGE_LISTS)
    return any(isinstance(each, ast.Name) and each.id == name for each in filled)


def _name(model: Model, function: FunctionInfo, loop: _Loop, name: str) -> str:
    return model.remember(
        ("copy before the loop", loop, name), lambda: surroundings.new_name(model, function, f"{name}_on_host")
    )


def _renamed(model: Model, node: ast.Name, name: str) -> Edit:
    source = model.source
    start = source.offset(node.lineno, node.col_offset)
    return Edit(start, start + len(node.id.encode()), name.encode())


def _copied(model: Model, read: HostRead, loop: _Loop, line: str, renamed: list[Edit], assumes: str) -> Fix | NoFix:
    if not read.site.tree.lossless:
        return NoFix.NO_ROOM
    changed = edits.together(placing.beside(model, loop, [line], behind=False), *renamed)
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, assumes)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in subtree(node) if isinstance(each, ast.Name)}
