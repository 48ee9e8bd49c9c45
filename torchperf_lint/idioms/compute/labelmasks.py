"""`for c in range(n): ... (labels == c) ...`: a mask for each label, where one operation serves all labels."""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.writes import writes_of
from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.model.handles import dotted, last_name, names_in
from torchperf_lint.syntax.tree import own_expressions, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo

_WORTH_A_TABLE = 5
"""With fewer labels, a mask for each is cheap."""
_SAME_LENGTH = frozenset(f"builtins.{name}" for name in "sorted list tuple set frozenset reversed enumerate".split())
_CASTS = frozenset("float double half bool int long byte to type unsqueeze".split())
_COUNTS = frozenset("sum count_nonzero any".split())
_STACKS = frozenset({"torch.stack", "torch.cat"})


class Use(enum.Enum):
    """What becomes of the masks."""

    COUNTED = "counted"
    COUNTED_OF_UNIQUE = "counted for each label that occurs"
    WRITTEN_THROUGH = "written through"
    STACKED = "stacked"


class Masked(NamedTuple):
    """A comparison of `tensor` with each label in turn, in every step."""

    site: Site
    tensor: str
    use: Use
    hot_path: HotPath


class _Walk(NamedTuple):
    """A loop, or a part of a comprehension, over labels: what it binds, and the nodes that it repeats."""

    target: ast.expr
    iterated: ast.expr
    repeats: list[ast.AST]

    @property
    def names(self) -> set[str]:
        return set(names_in(self.target))


def hot_label_masks(model: Model) -> Iterator[Masked]:
    """The comparisons of a device tensor with each label in turn that are counted, written through or stacked."""
    reported = None
    for node, statement, function, _, hot_path in model.hot_expressions(_comparisons, _is_with_label):
        assert isinstance(node, ast.Compare)
        label = node.comparators[0]
        assert isinstance(label, ast.Name)
        walk = _walk_around(function, node, label.id)
        if walk is None or _is_hot_loop(hot_path, walk) or statement is reported:
            continue
        if not _are_labels(model, function, walk, label.id) or not _is_same_in_all(function, node.left, walk):
            continue
        use = _use(model, function, node, walk)
        if use is Use.COUNTED and _are_those_that_occur(walk.iterated):
            use = Use.COUNTED_OF_UNIQUE
        site = None if use is None else model.site_at(node, statement)
        if use is not None and site is not None:
            reported = statement
            yield Masked(site, ast.unparse(node.left), use, hot_path)


def _comparisons(statement: ast.stmt, _: FunctionInfo) -> list[ast.Compare]:
    """The comparisons `x == name` of a statement, in source order."""
    found = [
        node
        for node in own_expressions(statement)
        if isinstance(node, ast.Compare)
        and len(node.ops) == 1
        and isinstance(node.ops[0], ast.Eq)
        and isinstance(node.comparators[0], ast.Name)
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _is_with_label(node: ast.Compare, values: Mapping[ast.expr, Value]) -> bool:
    left = values.get(node.left, UNKNOWN)
    return left.holds_tensors and not left.mixed and left.device.on_accelerator and left.scalar is not True


def _walk_around(function: FunctionInfo, node: ast.AST, name: str) -> _Walk | None:
    """The innermost loop or comprehension around the node that binds the name."""
    current = function.parents.get(node)
    while current is not None:
        if isinstance(current, (ast.ListComp, ast.GeneratorExp)) and len(current.generators) == 1:
            loop = current.generators[0]
            if name in names_in(loop.target):
                return _Walk(loop.target, loop.iter, [current.elt])
        if isinstance(current, ast.For) and name in names_in(current.target):
            return _Walk(current.target, current.iter, list(current.body))
        current = function.parents.get(current)
    return None


def _is_hot_loop(hot_path: HotPath, walk: _Walk) -> bool:
    return isinstance(hot_path.loop, ast.For) and hot_path.loop.target is walk.target


def _are_labels(model: Model, function: FunctionInfo, walk: _Walk, name: str) -> bool:
    """Whether the walk may be over more than a few numbers, and the name is each of these."""
    call = walk.iterated
    length = _length(model, function, call)
    if length is not None and length < _WORTH_A_TABLE:
        return False
    if isinstance(call, (ast.List, ast.Tuple, ast.Set)):
        return True
    if isinstance(call, ast.Call):
        ref = model.value_in(function, call.func).ref
        if ref == "builtins.range":
            return True
        if ref == "builtins.enumerate":
            return isinstance(walk.target, ast.Tuple) and names_in(walk.target.elts[0]) == [name]
    walked = model.value_in(function, call)
    held = walked.element
    return walked.is_tensor or (held is not None and held.kind is Kind.NUMBER)


def _length(model: Model, function: FunctionInfo, node: ast.expr) -> int | None:
    """Over how many items, at most, a walk over the expression goes; None if that is not written."""
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(each, ast.Starred) for each in node.elts) else len(node.elts)
    if isinstance(node, ast.Call):
        ref = model.value_in(function, node.func).ref
        if ref == "builtins.range":
            return _length_of_range(model, function, node)
        return _length(model, function, node.args[0]) if ref in _SAME_LENGTH and node.args else None
    if not isinstance(node, (ast.Name, ast.Attribute)) or _may_grow(function, node):
        return None
    items = model.value_in(function, node).items
    if items is not None:
        return len(items)
    if not isinstance(node, ast.Name):
        return None
    bound = model.only_binding(function, node.id) or function.defaults.get(node.id)
    return len(bound.elts) if isinstance(bound, (ast.List, ast.Tuple, ast.Set)) else None


def _length_of_range(model: Model, function: FunctionInfo, call: ast.Call) -> int | None:
    """The same for a call of `range`; counted up to a length that makes a table worth it."""
    numbers = [model.value_in(function, each).constant for each in call.args]
    known = [each for each in numbers if isinstance(each, int)]
    if len(known) == len(numbers) and 1 <= len(known) <= 3 and known[2:] != [0]:
        return len(range(*known)[:_WORTH_A_TABLE])
    stop = numbers[1] if len(numbers) > 1 else None
    return stop if isinstance(stop, int) and len(numbers) == 2 else None


def _may_grow(function: FunctionInfo, node: ast.expr) -> bool:
    path = dotted(node)
    return any(
        (isinstance(each, ast.Attribute) and each.attr in FILL and dotted(each.value) == path)
        or (isinstance(each, ast.AugAssign) and dotted(each.target) == path)
        for each in function.nodes
    )


def _are_those_that_occur(node: ast.expr) -> bool:
    """`x.unique()`, `torch.unique(x)`."""
    return isinstance(node, ast.Call) and last_name(node.func) == "unique"


def _is_same_in_all(function: FunctionInfo, node: ast.expr, walk: _Walk) -> bool:
    """Whether the walk rebinds nothing that the expression reads, and writes to nothing of it."""
    bound = {
        each.id
        for part in walk.repeats
        for each in subtree(part)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    }
    written = {
        dotted(each.value)
        for part in walk.repeats
        for each in subtree(part)
        if isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load)
    }
    written |= {dotted(_owner(each)) for part in walk.repeats for each in writes_of(part)}
    paths = {dotted(each) for each in subtree(node) if isinstance(each, (ast.Name, ast.Attribute))}
    return not (paths - {None}) & (bound | walk.names | written)


def _owner(node: ast.expr) -> ast.expr:
    """`labels` of `labels[0]`, `labels.view(-1)[mask]`."""
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return node
            node = node.func
        node = node.value
    return node


def _use(model: Model, function: FunctionInfo, mask: ast.expr, walk: _Walk) -> Use | None:
    """What all uses of the mask in the walk have in common; None if it is used in any other way."""
    parent = function.parents.get(mask)
    if isinstance(parent, ast.Assign) and parent.value is mask and len(parent.targets) == 1:
        name = parent.targets[0]
        if not isinstance(name, ast.Name) or function.bound_names.count(name.id) != 1:
            return None
        loads = [each for each in function.nodes if isinstance(each, ast.Name) and each.id == name.id]
        uses = {_use_of(model, function, each, walk) for each in loads if isinstance(each.ctx, ast.Load)}
        return uses.pop() if len(uses) == 1 else None
    return _use_of(model, function, mask, walk)


def _use_of(model: Model, function: FunctionInfo, mask: ast.expr, walk: _Walk) -> Use | None:
    node, parent = mask, function.parents.get(mask)
    while True:
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.BitAnd, ast.BitOr)):
            node, parent = parent, function.parents.get(parent)
            continue
        method = parent.attr if isinstance(parent, ast.Attribute) and parent.value is node else None
        call = function.parents.get(parent) if parent is not None and method is not None else None
        if not isinstance(call, ast.Call) or call.func is not parent:
            break
        if method in _COUNTS:
            return None if call.args or call.keywords else Use.COUNTED
        if method not in _CASTS:
            return None
        node, parent = call, function.parents.get(call)
    if isinstance(parent, ast.Call):
        return _use_by(model, function, node, parent, walk)
    if isinstance(parent, ast.Subscript) and parent.slice is node and not isinstance(parent.ctx, ast.Load):
        statement = function.parents.get(parent)
        is_written = isinstance(statement, ast.Assign) and _is_one_number(model, function, statement.value, walk)
        return Use.WRITTEN_THROUGH if is_written else None
    if isinstance(parent, ast.ListComp) and parent.elt is node:
        taker = function.parents.get(parent)
        is_stacked = isinstance(taker, ast.Call) and model.value_in(function, taker.func).ref in _STACKS
        return Use.STACKED if is_stacked else None
    return None


def _use_by(model: Model, function: FunctionInfo, mask: ast.expr, call: ast.Call, walk: _Walk) -> Use | None:
    """What the call does with the mask that it gets."""
    name = last_name(call.func)
    if not call.args or mask not in call.args:
        return None
    ref = model.value_in(function, call.func).ref
    if ref in ("torch.sum", "torch.count_nonzero", "torch.any"):
        return Use.COUNTED if len(call.args) == 1 and not call.keywords else None
    if name in ("masked_fill_", "masked_fill") and len(call.args) == 2 and call.args[0] is mask:
        return Use.WRITTEN_THROUGH if _is_one_number(model, function, call.args[1], walk) else None
    if ref == "torch.where" and len(call.args) == 3 and call.args[0] is mask:
        kept, statement = call.args[2], function.parents.get(call)
        is_update = isinstance(statement, ast.Assign) and [dotted(kept)] == list(map(dotted, statement.targets))
        return Use.WRITTEN_THROUGH if is_update and _is_one_number(model, function, call.args[1], walk) else None
    if name == "append" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        masks = dotted(call.func.value)
        return Use.STACKED if masks is not None and _is_stacked(model, function, masks) else None
    return None


def _is_one_number(model: Model, function: FunctionInfo, node: ast.expr, walk: _Walk) -> bool:
    """Whether the expression is one number for the label: a number, a name of the walk, an entry at such a name."""
    value = model.value_in(function, node)
    if value.kind is Kind.NUMBER or (value.is_tensor and value.scalar is True):
        return True
    if isinstance(node, ast.Name):
        return node.id in walk.names
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in walk.names


def _is_stacked(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether the function stacks the list."""
    return any(
        each.call.args and dotted(each.call.args[0]) == name and model.callee(each).ref in _STACKS
        for each in function.calls_made
    )
