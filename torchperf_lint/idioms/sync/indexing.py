"""Subscripts of tensors in every step: their indices, and whether they read or write."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.idioms.sync.shown import is_shown
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import own_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo


_ASKS_MASKS = frozenset({"any", "all"})


class Use(enum.Enum):
    """How the selected elements are used."""

    READ = "read"
    WRITTEN = "written"
    UPDATED = "read and written"


class Indexed(NamedTuple):
    """A subscript that runs in every step; `parts` are the indices in the brackets, `given` the value written."""

    site: Site
    node: ast.Subscript
    parts: tuple[ast.expr, ...]
    use: Use
    given: ast.expr | None
    statement: ast.stmt
    function: FunctionInfo
    values: Mapping[ast.expr, Value]
    hot_path: HotPath

    def value(self, node: ast.expr) -> Value:
        """The value of an expression in its statement."""
        return self.values.get(node, UNKNOWN)


def hot_subscripts(
    model: Model, wanted: Callable[[ast.Subscript, Mapping[ast.expr, Value]], bool]
) -> Iterator[Indexed]:
    """The subscripts in every step for which `wanted` holds, given the node and its values, in source order."""
    for node, statement, function, values, hot_path in model.hot_expressions(_subscripts, wanted):
        assert isinstance(node, ast.Subscript)
        use, given = _use(statement, node)
        site = model.site_at(node, statement)
        if site is not None:
            yield Indexed(site, node, parts_of(node), use, given, statement, function, values, hot_path)


def _subscripts(statement: ast.stmt, _: FunctionInfo) -> list[ast.Subscript]:
    """The subscripts of a statement that may select elements, in source order."""
    nodes = (node for node in own_expressions(statement) if isinstance(node, ast.Subscript) and _may_choose(node))
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def parts_of(node: ast.Subscript) -> tuple[ast.expr, ...]:
    """The indices in the brackets."""
    return tuple(node.slice.elts) if isinstance(node.slice, ast.Tuple) else (node.slice,)


def _may_choose(node: ast.Subscript) -> bool:
    """Whether the brackets hold more than literals and slices of them; annotations select nothing."""
    return any(not _is_literal(part) for part in parts_of(node)) or not isinstance(node.ctx, ast.Load)


def _is_literal(part: ast.expr) -> bool:
    if isinstance(part, ast.Slice):
        return all(bound is None or _is_literal(bound) for bound in (part.lower, part.upper, part.step))
    if isinstance(part, ast.UnaryOp):
        return _is_literal(part.operand) and not isinstance(part.op, ast.Invert)
    return isinstance(part, ast.Constant)


def _use(statement: ast.stmt, node: ast.Subscript) -> tuple[Use, ast.expr | None]:
    if isinstance(node.ctx, ast.Load):
        return Use.READ, None
    if isinstance(statement, ast.AugAssign):
        return Use.UPDATED, statement.value
    single = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.targets[0] is node
    return Use.WRITTEN, statement.value if single and isinstance(statement, ast.Assign) else None


def hot_masks(model: Model) -> Iterator[tuple[Indexed, ast.expr]]:
    """Subscripts, in every step, by a mask on the accelerator whose count the host needs; and the mask.

    A number that is written through a mask is filled in by the device, which needs no count.
    """
    for indexed in hot_subscripts(model, _has_mask):
        mask = next(
            (part for part in indexed.parts if is_mask(indexed.value(part)) or taken_for_mask(indexed, part)), None
        )
        if mask is None:
            continue
        if indexed.use is Use.WRITTEN:
            value = UNKNOWN if indexed.given is None else indexed.value(indexed.given)
            if not value.is_tensor or not value.device.on_accelerator:
                continue
        held = indexed.value(indexed.node.value)
        if held.kind is Kind.TENSOR and held.device is Device.CPU:
            continue  # A mask on the accelerator cannot index a host tensor: then the mask is on the host, too.
        # Only tensors are indexed by a comparison; an attribute may be a list of layers.
        is_held_there = held.holds_tensors and held.device.on_accelerator
        if (is_held_there or is_shown(model, indexed.function, mask)) and not _is_empty(model, indexed.statement, mask):
            yield indexed, mask


def _is_empty(model: Model, statement: ast.stmt, mask: ast.expr) -> bool:
    """Whether the statement runs only if nothing is selected: in the other branch of `if mask.any():`."""
    wanted = {f"{ast.unparse(mask)}.any()", f"torch.any({ast.unparse(mask)})"}
    for place in model.place_of(statement).outwards():
        test, runs = getattr(place.parent, "test", None), place.field == "body"
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, runs = test.operand, not runs
        if isinstance(place.parent, ast.If) and not runs and test is not None and ast.unparse(test) in wanted:
            return True
    return False


def _has_mask(node: ast.Subscript, values: Mapping[ast.expr, Value]) -> bool:
    held = values.get(node.value, UNKNOWN).kind
    return held not in (Kind.CONTAINER, Kind.NUMPY) and any(
        is_mask(values.get(part, UNKNOWN)) or _may_be_mask(part, values) for part in parts_of(node)
    )


def _may_be_mask(part: ast.expr, values: Mapping[ast.expr, Value]) -> bool:
    """Whether an index is a tensor on the accelerator, by a name, whose dtype is not known; or its inverse."""
    value = values.get(part, UNKNOWN)
    is_there = value.holds_tensors and value.device.on_accelerator
    is_formed = _name_of(part) is not None or _joined_truth(part) is not None
    return is_formed and is_there and value.dtype is None and value.kind is not Kind.CONTAINER


_JOINS = (ast.BitAnd, ast.BitOr, ast.BitXor)
_MASKS = ("mask", "valid", "keep")


def _name_of(part: ast.expr) -> str | None:
    """`mask` of `mask`, `~mask` and `batch["mask"]`."""
    inner = part.operand if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert) else part
    if isinstance(inner, ast.Name):
        return inner.id
    said = _last_word(inner)
    return said if said.lower().endswith("mask") else None


def _last_word(node: ast.expr) -> str:
    """`mask` of `batch["mask"]` and `batch.mask`."""
    if isinstance(node, ast.Subscript):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    return (last_name(node) or "") if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _joined_truth(part: ast.expr) -> ast.expr | None:
    """The comparison in `pad_mask & (labels >= 0)`; joined with a number, or with labels, it gives integers."""
    sides = [part.left, part.right] if isinstance(part, ast.BinOp) and isinstance(part.op, _JOINS) else []
    truths = [each for side in sides for each in _truths(side)]
    others = [side for side in sides if not _truths(side)]
    plain = all((_name_of(each) or "").lower().endswith(_MASKS) for each in others)
    return truths[0] if truths and plain else None


def _truths(part: ast.expr) -> list[ast.expr]:
    """The comparisons that an operand joins, or is."""
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
        return _truths(part.operand)
    if isinstance(part, ast.BinOp) and isinstance(part.op, _JOINS):
        sides = [_truths(part.left), _truths(part.right)]
        return [each for side in sides for each in side] if all(sides) else []
    is_of_numbers = isinstance(part, ast.Compare) and all(
        isinstance(each, (ast.Call, ast.Constant)) for each in (part.left, *part.comparators)
    )
    return [part] if isinstance(part, ast.Compare) and not is_of_numbers else []


def taken_for_mask(indexed: Indexed, part: ast.expr) -> Because | None:
    """Evidence that an index of unknown dtype is a mask: the function asks for `mask.any()`, or inverts it.

    Or it is joined with a comparison, or named `mask`: integers that index are named otherwise.
    """
    function, name = indexed.function, _name_of(part)
    if not _may_be_mask(part, indexed.values):
        return None
    if name is None:
        truth = _joined_truth(part)
        return None if truth is None else Unproven(part.lineno, f"`{ast.unparse(truth)}` makes a mask of it")
    taken = function.note(("taken for masks", function), lambda: _taken_for_masks(function)).get(name)
    said = name if name.lower().endswith("mask") else _made_of(function, name)
    if taken is not None or not said.lower().endswith("mask") or _is_annotated_otherwise(function, name):
        return taken
    return Unproven(part.lineno, f"`{said}` is a mask by its name")


def _made_of(function: FunctionInfo, name: str) -> str:
    """What a name is bound to once, beneath views: `mask` of `active = batch["mask"].view(-1)`; empty if unclear."""
    bound = [each for each in function.statements if isinstance(each, ast.Assign) and dotted(each.targets[0]) == name]
    if len(bound) != 1 or function.bound_names.count(name) != 1:
        return ""
    node = bound[0].value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        node = node.operand
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in VIEW_METHODS:
        node = node.func.value
    return _last_word(node)


def _is_annotated_otherwise(function: FunctionInfo, name: str) -> bool:
    """Whether the parameter's annotation says that it is a slice or integers."""
    parameters = function.arguments
    given = [] if parameters is None else [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    said = (ast.unparse(each.annotation) for each in given if each.arg == name and each.annotation is not None)
    return any(word in text for text in said for word in ("slice", "LongTensor", "IntTensor"))


def _taken_for_masks(function: FunctionInfo) -> dict[str, Because]:
    """By name, the first place that takes a name for a mask."""
    found: dict[str, Because] = {}
    for node in function.nodes:
        asked: ast.expr | None = None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            asked = node.operand
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ASKS_MASKS:
            asked = node.func.value if not node.args else node.args[0]
        if isinstance(asked, ast.Name):
            found.setdefault(asked.id, Unproven(node.lineno, f"`{ast.unparse(node)}` takes `{asked.id}` for a mask"))  # type: ignore[attr-defined]
    return found


def is_mask(value: Value) -> bool:
    """Whether a tensor on the accelerator selects elements by true and false."""
    return value.kind is Kind.TENSOR and value.dtype in ("bool", "uint8") and value.device.on_accelerator


def has_its_shape(model: Model, indexed: Indexed) -> bool:
    """Whether the only mask in the brackets compares the same tensor, so that both have one shape.

    A comparison with the tensor has at least its dimensions, and what chooses from it has no more. The mask is written
    in the brackets, or bound once, like the tensor; several comparisons may be joined.
    """
    base = indexed.node.value
    if len(indexed.parts) != 1 or not isinstance(base, (ast.Name, ast.Attribute)):
        return False
    mask = indexed.parts[0]
    if isinstance(mask, ast.Name):
        bound = model.only_binding(indexed.function, mask.id)
        is_stable = isinstance(base, ast.Name) and indexed.function.bound_names.count(base.id) <= 1
        if bound is None or not is_stable:
            return False
        mask = bound
    compared = _comparisons(mask)
    return any(ast.unparse(side) == ast.unparse(base) for each in compared for side in (each.left, *each.comparators))


def _comparisons(mask: ast.expr) -> list[ast.Compare]:
    """The comparisons that a mask consists of, joined element by element; empty if there is anything else in it."""
    if isinstance(mask, ast.Compare):
        plain = len(mask.ops) == 1 and isinstance(mask.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        return [mask] if plain else []
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return _comparisons(mask.operand)
    if isinstance(mask, ast.BinOp) and isinstance(mask.op, (*_JOINS, ast.Mult)):
        first, second = _comparisons(mask.left), _comparisons(mask.right)
        return [*first, *second] if first and second else []
    return []
