"""`x.to(d)` of memory that is not pinned, or written to later: a copy of it in pinned memory needs no wait."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating, habits
from torchperf_lint.idioms.scripting import judged, may_be_scripted
from torchperf_lint.idioms.transfer.construction import device_text, in_format_string, is_pure
from torchperf_lint.idioms.written_helpers import SENT, defined
from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.host_only import RETURN_TENSORS
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import Code, FunctionInfo

_DEVICES = (Kind.DEVICE, Kind.NUMBER, Kind.STRING)
_TITLE = "copy from pinned memory, and do not wait"
ASSUMES = (
    "no other stream reads the copy too early, what is moved is a tensor, no attribute on the way is a property, "
    "and no traced graph has to serve another device"
)
_PACKERS = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
_GIVEN = frozenset({"data", "dtype", "device"})
_METHODS_OF_OBJECTS = frozenset({"get", "items", "keys", "pop", "to_data_list", "to_dict", "update"})
_OF_TENSORS = torch_api.METADATA_ATTRIBUTES | torch_api.TENSOR_ATTRIBUTES | {"device", "is_nested", "retains_grad"}
"""The attributes of tensors that are no methods."""


def sent(model: Model, move: Move, *, acts_as_tensor: bool = False) -> Fix | NoFix:
    """`_sent(x, d)` for `x.to(d)`, and the function `_sent` above the file's definitions.

    `acts_as_tensor` says that what is moved is a tensor for all that the file shows.
    """
    fix, function = _copied_by_helper(model, move, acts_as_tensor), model.function_of(move.site)
    return fix if move.like or may_be_sent(model, function, move.device) else judged(model, function, fix)


def _copied_by_helper(model: Model, move: Move, acts_as_tensor: bool) -> Fix | NoFix:
    site, tree = move.site, move.site.tree
    named, is_tensor = device_text(model, move), model.value(move.moved).is_tensor
    if not move.plain or (move.like and (move.device is None or not model.value(move.device).is_tensor)):
        return NoFix.FORM
    if named is None or shape.binds_or_defers(move.call):
        return NoFix.DEVICE_NOT_AT_HAND
    if shape.method_name(move.call) == "cuda":
        if model.defines_cuda and not is_tensor:
            return NoFix.FORM  # an object without `to`, perhaps
        if move.device is not None and not _is_surely_a_device(model, move, move.device):
            return NoFix.DEVICE_NOT_AT_HAND  # for None it is the current device, where `to` has none
    elif move.device is None:
        return NoFix.FORM
    moved, dtype = edits.text_of(tree, move.moved), _dtype(model, move)
    if dtype is not None:
        # A copy that waits casts on the host, where no other device rounds in its own way.
        moved = f"{edits.postfix(tree, move.moved)}.to({dtype})"
    if not is_tensor and (dtype is not None or move.non_blocking or _is_object(model, move)):
        return NoFix.FORM
    if move.dtype is not None and (move.non_blocking or model.value(move.dtype).kind is not Kind.DTYPE):
        return NoFix.FORM
    start, end = tree.span(move.call)
    if not tree.lossless or b"#" in tree.source.utf8[start:end] or in_format_string(model, move.call):
        return NoFix.NO_ROOM
    changed = _replaced(model, site, move.call, moved, named[0])
    by_keyword = any(each.keyword for each in move.call.args) and not acts_as_tensor
    same = is_tensor or (shape.method_name(move.call) == "to" and not by_keyword)
    # `x.to(y)` is of the class of y, which may be one of a library.
    grade = safest(model, same=same and not move.like).at_worst(named[1])
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, grade, changed, ASSUMES)


def _is_object(model: Model, move: Move) -> bool:
    """Whether what is moved is no tensor, which the helper would only move: a tokenizer's result, a batch of graphs."""
    return _is_of_tokenizer(model, move) or _is_used_as_object(model, move)


def _is_used_as_object(model: Model, move: Move) -> bool:
    """Whether the function asks the name for an entry or attribute that no tensor has: `batch["x"]`, `batch.ptr`."""
    if not isinstance(move.moved, cst.Name):
        return False
    function, name = model.function_of(move.site), move.moved.value
    called = {id(each.func) for each in function.nodes if isinstance(each, ast.Call)}
    for node in function.nodes:
        if not isinstance(node, (ast.Attribute, ast.Subscript)):
            continue
        if not isinstance(node.value, ast.Name) or node.value.id != name:
            continue
        if isinstance(node, ast.Subscript):
            found = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
        else:
            found = node.attr in _METHODS_OF_OBJECTS or (id(node) not in called and node.attr not in _OF_TENSORS)
        if found:
            return True
    return False


def _is_of_tokenizer(model: Model, move: Move) -> bool:
    """Whether a tokenizer's result is moved, `tokenize(texts, return_tensors="pt")`: an object, not a tensor."""
    made = model.ast_of(move.moved)
    if isinstance(made, ast.Name):
        made = model.only_binding(model.function_of(move.site), made.id)
    return isinstance(made, ast.Call) and any(each.arg == RETURN_TENSORS for each in made.keywords)


def _dtype(model: Model, move: Move) -> str | None:
    """The dtype that the move casts to as well."""
    if move.like:
        return None if move.device is None else f"{model.text(move.device)}.dtype"
    return None if move.dtype is None else model.text(move.dtype)


def safer(fix: Fix | NoFix, copy: Callable[[], Fix | NoFix]) -> Fix | NoFix:
    """The fix that needs no copy, or the copy without a wait where this one alone is safe, or there is no other."""
    if isinstance(fix, Fix) and fix.safety is Safety.SAFE:
        return fix
    copied = copy()
    if isinstance(fix, NoFix):
        return copied
    return copied if isinstance(copied, Fix) and copied.safety.rank < fix.safety.rank else fix


def packed_and_sent(model: Model, site: Site, call: cst.Call) -> Fix | NoFix:
    """`_sent(torch.tensor(v), d)` for `torch.tensor(v, device=d)`, `_sent(x.new_tensor(v, ...), x.device)` likewise."""
    tree, torch = site.tree, model.name_of("torch", site)
    named = [each.keyword.value if each.keyword else "" for each in call.args[1:] if not _says_nothing(each)]
    is_plain = bool(call.args) and not call.args[0].star and _GIVEN.issuperset(named)
    if not is_plain or (call.args[0].keyword is not None and call.args[0].keyword.value != "data"):
        return NoFix.FORM
    given = [each for each in call.args if each.keyword is not None and each.keyword.value == "device"]
    start, end = tree.span(call)
    if torch is None or not tree.lossless or b"#" in tree.source.utf8[start:end] or in_format_string(model, call):
        return NoFix.NO_ROOM
    if shape.method_name(call) == "new_tensor":
        return _new_and_sent(model, site, call) if not given else NoFix.FORM
    if model.value(call.func).ref not in _PACKERS or len(given) != 1 or shape.binds_or_defers(call):
        return NoFix.FORM
    device = given[0].value
    if not is_pure(model, device) or "\n" in model.text(device):
        return NoFix.DEVICE_NOT_AT_HAND
    dropped = edits.drop_argument(tree, call, given[0])
    fix = _around(model, site, call, dropped, edits.text_of(tree, device))
    function = model.function_of(site)
    return fix if may_be_sent(model, function, device) else judged(model, function, fix)


def sent_to(model: Model, site: Site, source: cst.BaseExpression, device: str) -> Fix | NoFix:
    """`_sent(x, device)` for a tensor `x` of the host, whose copy the device gets anyway."""
    tree, torch = site.tree, model.name_of("torch", site)
    start, end = tree.span(source)
    if torch is None or not tree.lossless or b"#" in tree.source.utf8[start:end] or shape.binds_or_defers(source):
        return NoFix.NO_ROOM
    if in_format_string(model, source):
        return NoFix.NO_ROOM
    helper = defined(model, SENT, torch, model.statement_of(site.node))
    changed = edits.together(
        helper, edits.replace(tree, source, f"{SENT.name}({edits.text_of(tree, source)}, {device})")
    )
    fix = NoFix.NO_ROOM if changed is None else Fix(_TITLE, safest(model), changed, ASSUMES)
    return judged(model, model.function_of(site), fix)


def _says_nothing(argument: cst.Arg) -> bool:
    """`requires_grad=False`, as by default."""
    is_named = argument.keyword is not None and argument.keyword.value in ("requires_grad", "pin_memory")
    return is_named and shape.is_literal(argument.value, "False")


def _new_and_sent(model: Model, site: Site, call: cst.Call) -> Fix | NoFix:
    """The tensor keeps the class and the dtype of `x`, also where these are not known."""
    owner = shape.receiver(call)
    again = None if owner is None else evaluating.written_twice(model, owner)
    if owner is None or again is None or not is_pure(model, owner) or not model.value(owner).is_tensor:
        return NoFix.DEVICE_NOT_AT_HAND
    if shape.binds_or_defers(call):
        return NoFix.FORM
    on_host = edits.add_argument(site.tree, call, 'device="cpu"')
    fix = _around(model, site, call, on_host, f"{edits.postfix(site.tree, owner)}.device")
    return fix._replace(safety=fix.safety.at_worst(again)) if isinstance(fix, Fix) else fix


def _around(
    model: Model, site: Site, call: cst.Call, packing: Edit | tuple[Edit, ...] | None, device: str
) -> Fix | NoFix:
    """The call with the edits of its arguments, in the brackets of the helper's."""
    torch = model.name_of("torch", site)
    start, end = site.tree.span(call)
    if torch is None:
        return NoFix.NO_ROOM
    changed = edits.together(
        defined(model, SENT, torch, model.statement_of(site.node)),
        Edit(start, start, f"{SENT.name}(".encode()),
        packing,
        Edit(end, end, f", {device})".encode()),
    )
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, safest(model), changed, ASSUMES)


def _replaced(model: Model, site: Site, call: cst.Call, moved: str, device: str) -> tuple[Edit, ...] | None:
    torch = model.name_of("torch", site)
    if torch is None:
        return None
    helper = defined(model, SENT, torch, model.statement_of(site.node))
    return edits.together(helper, edits.replace(site.tree, call, f"{SENT.name}({moved}, {device})"))


def safest(model: Model, *, same: bool = True) -> Safety:
    """The grade of a copy by the helper; `same` says that all other objects are moved by the call that they were."""
    return Safety.SAFE if same and not rests_on_waits(model) else Safety.UNSAFE


def rests_on_waits(model: Model) -> bool:
    """Whether something around may be right only because a copy waits.

    That are streams, events, copies to the host that do not wait, and pinned memory that is written to again.
    """
    return any(
        each.remember("rests on waits", functools.partial(_rests_on_waits, each.code)) for each in model.with_neighbours
    )


def starts_processes(model: Model) -> bool:
    """Whether something around may start processes, in whose parent nothing should ask for CUDA that did not before."""
    return any(habits.starts_processes(each.code) for each in model.with_neighbours)


def _rests_on_waits(code: Code) -> bool:
    looks = (habits.has_streams, habits.has_events, habits.fetches_without_waiting, habits.reuses_pinned_memory)
    return any(each(code) for each in looks)


def may_be_sent(model: Model, function: FunctionInfo, device: cst.BaseExpression | None) -> bool:
    """Whether TorchScript, where it may compile the function, has a device for the helper in this expression."""
    if device is None or not may_be_scripted(model, function):
        return True
    meaning = model.ast_of(device)
    return meaning is not None and _is_one_for_torchscript(model, function, meaning)


def _is_one_for_torchscript(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """`"cuda"`, `x.device` of a tensor, a name that is bound to that alone, or a parameter that is annotated so."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Attribute):
        return node.attr == "device" and model.value_in(function, node.value).is_tensor
    if not isinstance(node, ast.Name):
        return False
    arguments = function.arguments
    if arguments is not None and node.id in function.parameter_names:
        given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        stated = next((each.annotation for each in given if each.arg == node.id), None)
        return function.bound_names.count(node.id) == 1 and stated is not None and dotted(stated) == "torch.device"
    made = model.only_binding(function, node.id)
    return made is not None and not isinstance(made, ast.Name) and _is_one_for_torchscript(model, function, made)


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
