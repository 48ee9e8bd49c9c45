"""Indices on the host for a tensor on the device, and the edits that need no copy: made there, or taken as a slice."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating, surroundings
from torchperf_lint.idioms.layout import has_own_elements, is_written_through
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.idioms.sync.counted import counted_before, counted_on_host
from torchperf_lint.idioms.sync.host_numbers import is_host_number
from torchperf_lint.idioms.sync.host_truths import is_host_mask
from torchperf_lint.idioms.sync.indexing import Use
from torchperf_lint.idioms.sync.places import may_be_number
from torchperf_lint.idioms.sync.sizes import is_length
from torchperf_lint.idioms.transfer import pinned_copies
from torchperf_lint.idioms.transfer.construction import is_pure
from torchperf_lint.idioms.transfer.uploads import makes_on_device
from torchperf_lint.idioms.written_helpers import SENT, defined
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.model.handles import names_in
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.idioms.sync.places import Costly
    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

_RECKONS = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)
_RECKON = frozenset("add sub mul fmod remainder div floor_divide clamp".split())
"""What makes integers of integers, or floats."""
_SPANS = (Kind.NUMBER, Kind.NONE)
_VIEWS = VIEW_METHODS | {"detach"}
_TITLE_SENT = "copy the places from pinned memory, and do not wait"
_ASSUMES_SENT = pinned_copies.ASSUMES
_ASSUMES_ARRAYS = (
    f"{_ASSUMES_SENT}, and an array holds integers of 32 or 64 bits or truth values, also where it is empty"
)
_UNSHARED = "no elements share memory, and nothing writes to the tensor while the slice is in use"


def without_copy(model: Model, place: Costly) -> Fix | NoFix:
    """`x[torch.arange(n, device=x.device), i]` for `x[torch.arange(n), i]`, `x[:, 0:3:2]` for `x[:, [0, 2]]`."""
    indexed, subscript = place.indexed, place.site.node
    if indexed is None or not isinstance(subscript, cst.Subscript) or len(subscript.slice) != len(indexed.parts):
        return NoFix.FORM
    if surroundings.is_spelled_out(model, place.site):
        return NoFix.FORM
    on_host: list[cst.BaseExpression] = []
    for element, part in zip(subscript.slice, indexed.parts, strict=True):
        if isinstance(element.slice, cst.Index) and _is_on_host(model, indexed, part):
            if is_host_mask(indexed.value(part)) and not _fills(indexed):
                return NoFix.SIZE_IN_THE_DATA  # the device would count it, and be waited for
            on_host.append(element.slice.value)
    if not on_host:
        return NoFix.FORM
    is_one = len(on_host) == 1 and (isinstance(on_host[0], cst.List) or _literal_range(model, on_host[0]) is not None)
    fix = _sliced(model, indexed, subscript, on_host[0]) if is_one else _made_there(model, indexed, subscript, on_host)
    return pinned_copies.safer(fix, lambda: _sent(model, indexed, subscript, on_host) or fix)


def _sent(model: Model, indexed: Indexed, subscript: cst.Subscript, on_host: list[cst.BaseExpression]) -> Fix | None:
    """`x[_sent(places, x.device)]` for `x[places]`: copied from pinned memory, without a wait."""
    owner, tree = _whole(model, subscript.value), indexed.site.tree
    torch = model.name_of("torch", indexed.site)
    held, again = model.value(owner), evaluating.written_twice(model, owner)
    if makes_on_device(model) or torch is None or not tree.lossless:
        return None
    is_there = held.holds_tensors and held.device.on_accelerator  # nothing else takes places of the host as an index
    if again is None or not is_pure(model, owner) or not is_there:
        return None
    if may_be_scripted(model, indexed.function) and not held.is_tensor:
        return None
    changed: list[tuple[Edit, ...] | Edit | None] = [
        defined(model, SENT, torch, model.statement_of(indexed.site.node)),
    ]
    for node in on_host:
        there = _counted_there(model, indexed, node, owner)
        if there is not None:
            changed.append(there)
            continue
        places = _as_places(model, indexed, node, torch)
        if places is None or shape.binds_or_defers(node) or edits.has_comment(tree, node):
            return None
        sent = f"{SENT.name}({places}, {edits.text_of(tree, owner)}.device)"
        changed.append(edits.replace(tree, node, sent))
    together = edits.together(*dict.fromkeys(changed))
    has_arrays = any(model.value(node).kind is Kind.NUMPY for node in on_host)
    assumes = _ASSUMES_ARRAYS if has_arrays else _ASSUMES_SENT
    # In a traced graph the device would be a constant.
    are_places = all(_are_surely_places(model, indexed, node) for node in on_host)
    same = held.is_tensor and are_places and not has_arrays and not model.may_be_traced
    grade = pinned_copies.safest(model, same=same).at_worst(again)
    return None if together is None else Fix(_TITLE_SENT, grade, together, assumes)


def _are_surely_places(model: Model, indexed: Indexed, node: cst.BaseExpression) -> bool:
    """Whether an index has integers: truth values are counted where they lie, and on the device that is a wait."""
    value, meaning = model.value(node), model.ast_of(node)
    if not value.is_tensor or (_fills(indexed) and is_host_mask(value)):
        return True
    return meaning is not None and _has_integers(model, indexed.function, meaning)


def _has_integers(model: Model, function: FunctionInfo, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an index is made of integers; floats, to which a number may turn them, are none that torch takes."""
    value = model.value_in(function, node)
    if value.is_tensor and (value.dtype or "").startswith("int"):
        return True
    if isinstance(node, ast.Name):
        made = None if node.id in seen else model.only_binding(function, node.id)
        if made is None or isinstance(made, ast.Name):
            return False
        return _has_integers(model, function, made, seen | {node.id})
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _RECKONS) and any(
            _has_integers(model, function, each, seen) for each in (node.left, node.right)
        )
    if not isinstance(node, ast.Call) or not node.args:
        return False
    name = (model.value_in(function, node.func).ref or "").removeprefix("torch.")
    return name in _RECKON and _has_integers(model, function, node.args[0], seen)


def _as_places(model: Model, indexed: Indexed, node: cst.BaseExpression, torch: str) -> str | None:
    """The text of a tensor of the places; None for a list that may hold truth values, or nothing."""
    value, text = model.value(node), edits.text_of(indexed.site.tree, node)
    if value.is_tensor:
        return text
    if value.kind is Kind.NUMPY:
        return f"{torch}.as_tensor({text})"
    held = value.element
    if isinstance(node, (cst.List, cst.Tuple)):
        is_whole = bool(node.elements) and all(_is_position(model.value(each.value)) for each in node.elements)
        return f"{torch}.tensor({text})" if is_whole else None
    is_whole = value.ref in ("list", "range") and held is not None and _is_position(held)
    return f"{torch}.tensor({text}, dtype={torch}.int64)" if is_whole else None  # it may be empty


def _is_on_host(model: Model, indexed: Indexed, part: ast.expr) -> bool:
    """Whether an index is copied to the device; the number of a host tensor without dimensions is not."""
    value = indexed.value(part)
    is_tensor = value.is_tensor and value.device is Device.CPU and not may_be_number(model, indexed, part)
    return is_tensor or value.kind in (Kind.CONTAINER, Kind.NUMPY)


def _made_there(
    model: Model, indexed: Indexed, subscript: cst.Subscript, on_host: list[cst.BaseExpression]
) -> Fix | NoFix:
    """Make all indices on the device of the tensor that they index."""
    owner = _whole(model, subscript.value)
    again = evaluating.written_twice(model, owner)
    if again is None or not is_pure(model, owner) or not model.value(owner).is_tensor:
        return NoFix.DEVICE_NOT_AT_HAND
    changed = [_counted_there(model, indexed, node, owner) for node in on_host]
    if None in changed:
        return NoFix.FORM
    together = edits.together(*dict.fromkeys(changed))  # one statement may count several
    # In a traced graph the device would be a constant.
    grade = Safety.UNSAFE if model.may_be_traced else again
    return NoFix.NO_ROOM if together is None else Fix("make the indices on the device", grade, together)


def _counted_there(
    model: Model, indexed: Indexed, node: cst.BaseExpression, owner: cst.BaseExpression
) -> tuple[Edit, ...] | None:
    """`torch.arange(n, device=x.device)` for `torch.arange(n)`, and for `range(n)` where n is a length."""
    tree = indexed.site.tree
    device = f"device={edits.text_of(tree, owner)}.device"
    if isinstance(node, cst.Name):
        name = model.ast_of(node)
        if not isinstance(name, ast.Name) or not isinstance(owner, cst.Name) or _takes_a_number(indexed):
            return None  # through places of the device, a number is copied as well
        return counted_before(model, indexed.function, name.id, owner.value)
    root = counted_on_host(model, node)
    if root is not None:
        return edits.add_argument(tree, root, device)
    torch, meaning = model.name_of("torch", indexed.site), model.ast_of(node)
    counted = meaning.args if isinstance(meaning, ast.Call) and len(meaning.args) == 1 else []
    if torch is None or not isinstance(node, cst.Call) or model.value(node).ref != "range":
        return None
    if not any(is_length(model, indexed.function, each) for each in counted):
        return None  # of a number below zero `range` makes nothing, and `torch.arange` an error
    named = edits.replace(tree, node.func, f"{torch}.arange")
    given = edits.add_argument(tree, node, device)
    return None if named is None or given is None else (named, *given)


def _whole(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor whose part or view an expression is: it lies on the same device."""
    while True:
        inner = node.value if isinstance(node, cst.Subscript) else None
        if isinstance(node, cst.Call) and shape.method_name(node) in _VIEWS:
            inner = shape.receiver(node)
        if inner is None or not model.value(inner).is_tensor:
            return node
        node = inner


def _sliced(model: Model, indexed: Indexed, subscript: cst.Subscript, listed: cst.BaseExpression) -> Fix | NoFix:
    """Take evenly spaced literal places as a slice, which is a view where the list makes a copy."""
    places = _literal_range(model, listed)
    if places is None and isinstance(listed, cst.List):
        places = _as_range([model.value(each.value).constant for each in listed.elements], listed)
    text = None if places is None else _as_slice(places)
    if text is None:
        return NoFix.VARIES
    if not _pairs_with_nothing(indexed, subscript, listed):
        return NoFix.FORM
    if indexed.use is Use.READ:
        if is_written_through(model, indexed.function, indexed.node):
            return NoFix.USED_OTHERWISE
    elif _may_overlap(indexed):
        return NoFix.USED_OTHERWISE
    edit = None if listed.lpar else edits.replace(indexed.site.tree, listed, text)
    grade = Safety.SAFE if _writes_alike(model, indexed) else Safety.UNSAFE
    return NoFix.NO_ROOM if edit is None else Fix("take a slice", grade, (edit,), _UNSHARED)


def _pairs_with_nothing(indexed: Indexed, subscript: cst.Subscript, listed: cst.BaseExpression) -> bool:
    """Whether no other index pairs its places with the list's, or moves the dimension of the list to the front."""
    nodes = [each.slice.value if isinstance(each.slice, cst.Index) else None for each in subscript.slice]
    own = nodes.index(listed)
    for position, (node, part) in enumerate(zip(nodes, indexed.parts, strict=True)):
        value = indexed.value(part)
        if position == own or node is None or isinstance(node, cst.Ellipsis):
            continue
        if value.kind not in _SPANS or (value.kind is Kind.NUMBER and not _is_position(value)):
            return False
        if value.kind is Kind.NUMBER and abs(position - own) > 1 and not _takes_a_number(indexed):
            return False
    return True


def _is_position(value: Value) -> bool:
    """Whether a number is an integer: a truth value adds a dimension."""
    return value.dtype == "int" or type(value.constant) is int


def _writes_alike(model: Model, indexed: Indexed) -> bool:
    """Whether the slice writes what the list writes: a number, once to each element, with no error that is caught."""
    return (
        _takes_a_number(indexed)
        and has_own_elements(model, indexed.function, indexed.node.value)
        and not surroundings.may_be_caught(model, indexed.site)
    )


def _takes_a_number(indexed: Indexed) -> bool:
    """Whether a number is written: the text of a tensor does not tell in whose memory it lies."""
    written = indexed.use is not Use.READ and indexed.given is not None
    return written and indexed.given is not None and is_host_number(indexed.given, indexed.value)


def _fills(indexed: Indexed) -> bool:
    """Whether a number is written, which the device does without counting the true values of a mask."""
    return indexed.use is Use.WRITTEN and _takes_a_number(indexed)


def _may_overlap(indexed: Indexed) -> bool:
    """Whether the written value is unknown, or reads the tensor that is written to."""
    return indexed.given is None or bool({*names_in(indexed.given)} & {*names_in(indexed.node.value)})


def _literal_range(model: Model, node: cst.BaseExpression) -> range | None:
    """The places of `range(2, 6)`, where all of its arguments are written as integers."""
    if not isinstance(node, cst.Call) or model.value(node).ref != "range" or not node.args:
        return None
    if not all(isinstance(each.value, cst.Integer) and not each.star for each in node.args):
        return None
    numbers = [each for each in (model.value(each.value).constant for each in node.args) if type(each) is int]
    return range(*numbers) if len(numbers) == len(node.args) and 0 not in numbers[2:] else None


def _as_range(places: list[object], listed: cst.List) -> range | None:
    """The range that holds the same; None unless these are literals with one positive step."""
    if not places or not all(isinstance(each.value, cst.Integer) for each in listed.elements):
        return None
    numbers = [each for each in places if type(each) is int]
    if len(numbers) != len(places):
        return None
    steps = {later - earlier for earlier, later in itertools.pairwise(numbers)} or {1}
    step = steps.pop()
    return None if steps or step < 1 else range(numbers[0], numbers[-1] + 1, step)


def _as_slice(places: range) -> str | None:
    """`0:3:2` for 0 and 2; None for no places."""
    if not places:
        return None
    span = f"{places[0]}:{places[-1] + 1}"
    return span if places.step == 1 else f"{span}:{places.step}"
