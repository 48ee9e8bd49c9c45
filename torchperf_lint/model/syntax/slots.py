"""Slots: the names, attributes and entries that a test reads, and the changes of their state, from the text alone."""

from __future__ import annotations

import ast
import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.containers import EMPTY, FILL
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

_EMPTY_MAKERS = frozenset("dict list set tuple deque OrderedDict defaultdict Counter".split())
_EMPTIERS = EMPTY | {"del"}
_MAKERS = frozenset("tensor Tensor as_tensor BoolTensor ByteTensor".split())
_IN_PLACE = "in place"
_EXTENT = re.compile(
    r"(^|_)(shape|size|sizes|seqlen|len|length|dim|dims|numel|ndim|device|dtype|height|width|h|w)$|^max_"
)
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)


class State(enum.Enum):
    """The state of a slot in which a branch is entered."""

    NONE = "is None"
    MISSING = "is no attribute yet, or no key yet"
    FALSE = "is false"
    TRUE = "is true"
    EMPTY = "is empty"
    EQUAL = "is this literal"
    STALE = "is of another size, type or place"
    NOT_NOTED = "is not the size, type or place that is noted there"

    __hash__ = object.__hash__


class Slot(NamedTuple):
    """A name or attribute by its dotted path, or an entry of it, and the state that the test requires."""

    path: str
    state: State
    key: ast.expr | None = None
    literal: object = None

    @property
    def root(self) -> str:
        """The name that the path begins with."""
        return self.path.partition(".")[0]

    @property
    def attribute(self) -> str:
        """The last name of the path."""
        return self.path.rpartition(".")[2]


class Change(NamedTuple):
    """A change of the value at a path: `value` is what is assigned, `how` the word for anything else."""

    path: str
    statement: ast.stmt
    value: ast.expr | None = None
    key: ast.expr | None = None
    how: str = "="
    said: str = ""
    """The path as written in the statement, if that differs."""


ANY = "*"
"""The last name of a path whose attribute is only known by a variable: `setattr(x, name, value)`."""


def asked(test: ast.expr, taken: bool) -> list[Slot]:
    """The slots of a test without `and`, `or` and `not`, in the state in which its branch is entered."""
    if isinstance(test, ast.Call):
        return _asked_by_call(test, taken)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _asked_by_comparison(test.left, test.ops[0], test.comparators[0], taken)
    return _of(test, State.TRUE if taken else State.FALSE)


def entry(node: ast.expr, state: State) -> list[Slot]:
    """The slot of `xs[key]`, `xs.get(key)`, `getattr(self, "x")`, a name or an attribute, in a state."""
    return _of(node, state)


def _of(node: ast.expr, state: State, literal: object = None) -> list[Slot]:
    if isinstance(node, ast.Subscript):
        held = dotted(node.value)
        return [] if held is None else [Slot(held, state, node.slice, literal)]
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if name == "item" and isinstance(node.func, ast.Attribute):
            return _of(node.func.value, state, literal)
        if name == "get" and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
            held = dotted(node.func.value)
            return [] if held is None else [Slot(held, state, node.args[0], literal)]
        path = _named_attribute(node) if name == "getattr" else None
        return [] if path is None else [Slot(path, state, None, literal)]
    path = dotted(node)
    return [] if path is None else [Slot(path, state, None, literal)]


def _named_attribute(call: ast.Call, otherwise: str | None = None) -> str | None:
    """`self.x` of `hasattr(self, "x")`, `getattr(self, "x", None)` and `setattr(self, "x", value)`."""
    owner = dotted(call.args[0]) if len(call.args) > 1 else None
    if owner is None:
        return None
    attribute = call.args[1].value if isinstance(call.args[1], ast.Constant) else otherwise
    return None if attribute is None else f"{owner}.{attribute!s}"


def _asked_by_call(test: ast.Call, taken: bool) -> list[Slot]:
    name = last_name(test.func)
    if name == "hasattr":
        path = _named_attribute(test)
        return [] if taken or path is None else [Slot(path, State.MISSING)]
    if name == "len" and test.args:
        return [] if taken else _of(test.args[0], State.EMPTY)
    return _of(test, State.TRUE if taken else State.FALSE)


def _asked_by_comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr, taken: bool) -> list[Slot]:
    if isinstance(operator, (ast.In, ast.NotIn)):
        held = dotted(right)
        is_missing = taken == isinstance(operator, ast.NotIn)
        return [Slot(held, State.MISSING, left)] if is_missing and held is not None else []
    if not isinstance(operator, _ORDERS):
        return []
    if isinstance(left, ast.Constant):
        left, right, operator = right, left, _MIRRORED.get(type(operator), type(operator))()
    are_equal = isinstance(operator, (ast.Eq, ast.Is)) == taken and isinstance(operator, _ORDERS[:2] + _ORDERS[6:])
    if isinstance(right, ast.Constant):
        if isinstance(left, ast.Call) and last_name(left.func) == "len" and left.args:
            return _of(left.args[0], State.EMPTY) if _counts_none(operator, right.value, taken) else []
        if not are_equal:
            return []
        states: dict[object, State] = {"None": State.NONE, "True": State.TRUE, "False": State.FALSE}
        return _of(left, states.get(str(right.value), State.EQUAL), right.value)
    differ = not are_equal or not isinstance(operator, (ast.Eq, ast.Is, ast.NotEq, ast.IsNot))
    if differ and is_extent(left) and is_extent(right):
        return [Slot(path, State.STALE) for side in (left, right) for path in _measured(side)]
    if not are_equal and isinstance(operator, (ast.Eq, ast.NotEq)):
        return [*_noted(left, right), *_noted(right, left)]
    return []


def _noted(side: ast.expr, extent: ast.expr) -> Iterator[Slot]:
    """`self.seen` of `self.seen != x.shape`, which the branch sets to that."""
    path = dotted(side)
    if path is not None and isinstance(side, ast.Attribute) and _is_of_input(extent):
        yield Slot(path, State.NOT_NOTED, None, ast.unparse(extent))


def _is_of_input(extent: ast.expr) -> bool:
    """`dims`, `x.shape[2:]`, `x.size()`, `(x.shape, x.device)`: of what a name holds, and not of a list that grows."""
    if isinstance(extent, ast.Tuple):
        return all(map(_is_of_input, extent.elts))
    if isinstance(extent, ast.Name):
        return is_extent(extent)
    while isinstance(extent, (ast.Subscript, ast.Call)):
        extent = extent.func if isinstance(extent, ast.Call) else extent.value
    is_measure = isinstance(extent, ast.Attribute) and extent.attr in ("shape", "size", "device", "dtype")
    return is_measure and isinstance(extent.value, ast.Name)  # type: ignore[attr-defined]


_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def _counts_none(operator: ast.cmpop, count: object, taken: bool) -> bool:
    """Whether `len(x) <operator> count` with the outcome `taken` implies that x is empty."""
    says_empty = [(ast.Eq, 0), (ast.Lt, 1), (ast.LtE, 0)]
    says_filled = [(ast.NotEq, 0), (ast.Gt, 0), (ast.GtE, 1)]
    return (type(operator), count) in (says_empty if taken else says_filled)


def is_extent(node: ast.expr) -> bool:
    """`x.shape`, `x.size(0)`, `len(x)`, `x.device`, `self.max_len`, `n_dim + 1`: a size or a place, not content."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.BinOp):
        return is_extent(node.left) and is_extent(node.right)
    if isinstance(node, ast.Subscript):
        return is_extent(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(is_extent, node.elts))
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    return name is not None and _EXTENT.search(name.lower()) is not None


def _measured(node: ast.expr) -> Iterator[str]:
    """`x` and `x.shape` of `x.shape[0]`: a value whose size is tested is often created anew."""
    for each in subtree(node):
        path = dotted(each) if isinstance(each, (ast.Attribute, ast.Name)) else None
        if path is not None:
            yield path


# -- what changes a slot -----------------------------------------------------------------------------------------------


def changes_in(statement: ast.stmt) -> Iterator[Change]:
    """The changes that a statement makes, without its nested statements."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _assigned(target, statement.value, statement)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _assigned(statement.target, statement.value, statement)
    elif isinstance(statement, ast.AugAssign):
        path = dotted(statement.target)
        if path is not None:
            yield Change(path, statement, statement.value, how="+=")
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        yield from _bound(statement.target, statement)
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from _bound(item.optional_vars, statement)
    elif isinstance(statement, ast.Delete):
        for target in statement.targets:
            path = dotted(target.value if isinstance(target, ast.Subscript) else target)
            if path is not None:
                yield Change(path, statement, how="del")
    pending = [child for child in children(statement) if isinstance(child, ast.expr)]
    for node in (each for part in pending for each in subtree(part)):
        if isinstance(node, ast.NamedExpr):
            yield from _assigned(node.target, node.value, statement)
        elif isinstance(node, ast.Call):
            yield from _called(node, statement)


def _assigned(target: ast.expr, value: ast.expr, statement: ast.stmt) -> Iterator[Change]:
    if isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        for place, part in enumerate(target.elts):
            if len(values) == len(target.elts):
                yield from _assigned(part, values[place], statement)
            else:
                yield from _bound(part, statement, value)
    elif isinstance(target, ast.Subscript):
        path = dotted(target.value)
        if path is not None:
            yield Change(path, statement, value, target.slice)
    else:
        yield from _bound(target, statement, value)


def _bound(target: ast.expr, statement: ast.stmt, value: ast.expr | None = None) -> Iterator[Change]:
    if isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _bound(part, statement, value)
        return
    path = dotted(target.value if isinstance(target, ast.Starred) else target)
    if path is not None:
        yield Change(path, statement, value)


def _called(call: ast.Call, statement: ast.stmt) -> Iterator[Change]:
    name = last_name(call.func)
    if name in ("setattr", "delattr"):
        path = _named_attribute(call, ANY)
        if path is not None and len(call.args) == 3:
            yield Change(path, statement, call.args[2])
        elif path is not None and name == "delattr":
            yield Change(path, statement, how="del")
    if not isinstance(call.func, ast.Attribute):
        return
    owner = dotted(call.func.value)
    if owner is None:
        return
    first = call.args[0] if call.args else None
    if name in ("register_buffer", "register_parameter", "add_module") and isinstance(first, ast.Constant):
        yield Change(f"{owner}.{first.value!s}", statement, call.args[1] if len(call.args) > 1 else None)
    elif name in FILL or name in _EMPTIERS:
        yield Change(owner, statement, None, first, name)
    elif name is not None and name.endswith("_") and not name.startswith("_"):
        yield Change(owner.removesuffix(".data"), statement, _number_in(name, first), how=_IN_PLACE)


def _number_in(method: str, given: ast.expr | None) -> ast.expr | None:
    """What is written into a tensor of one element: `x.fill_(True)`, `x.copy_(torch.tensor([True]))`."""
    if method == "zero_":
        return ast.Constant(0)
    if method == "copy_" and isinstance(given, ast.Call) and last_name(given.func) in _MAKERS and given.args:
        given = given.args[0]
        while isinstance(given, (ast.List, ast.Tuple)) and len(given.elts) == 1:
            given = given.elts[0]
    elif method != "fill_":
        return None
    return given if isinstance(given, ast.Constant) else None


def settles(change: Change, slot: Slot) -> bool:
    """Whether the change ends the state, so that the test fails from then on."""
    value = change.value
    if change.path != slot.path or change.how in _EMPTIERS:
        return False
    if change.how == _IN_PLACE:
        return _is_false(slot) and isinstance(value, ast.Constant) and bool(value.value)
    if slot.key is not None:
        return change.key is not None and _same(change.key, slot.key) and (value is None or not _may_be_none(value))
    if _fills(change):
        return slot.state in (State.EMPTY, State.FALSE) or (slot.state is State.EQUAL and change.how == "+=")
    if slot.state is State.NOT_NOTED:
        return value is not None and ast.unparse(value) == slot.literal
    if slot.state is State.EMPTY:
        return value is not None and not is_empty(value)
    if slot.state is State.STALE:
        return value is not None and (_is_moved(value) or not mentions(value, slot.path))
    if slot.state in (State.NONE, State.MISSING):
        return value is None or not _may_be_none(value)
    return _is_literally_other(value, slot)


def keeps(change: Change, slot: Slot, is_behind: bool) -> bool:
    """Whether the change cannot restore the state.

    `is_behind`: it never precedes the branch within a pass, and its value is carried over to the next pass.
    """
    value = change.value
    if change.path != slot.path or change.how in _EMPTIERS:
        return False  # a change of another path is one of the slot's owner
    if change.how == _IN_PLACE:
        is_asked = slot.state in (State.TRUE, State.FALSE, State.EQUAL) and slot.key is None
        return not is_asked or _is_literally_other(value, slot)
    if _fills(change):
        return True
    if slot.key is not None:
        return value is not None and mentions(value, slot.path)
    if slot.state is State.MISSING:
        return True
    if slot.state is State.NONE:
        return value is not None and not _may_be_none(value) and (is_behind or _is_some(value, slot))
    if slot.state is State.NOT_NOTED:
        return settles(change, slot)
    return slot.state is not State.STALE and _is_literally_other(value, slot)


def restores(change: Change, slot: Slot) -> bool:
    """Whether the change plainly restores the state: `x = None`, `del x`, `xs.clear()`."""
    value = change.value
    if change.path != slot.path:
        return False
    if change.how in _EMPTIERS:
        return slot.key is not None or slot.state in (State.MISSING, State.EMPTY, State.FALSE)
    if value is None or _fills(change) or (change.how == _IN_PLACE and not _is_false(slot)):
        return False
    if slot.key is not None or slot.state in (State.EMPTY, State.FALSE):
        return is_empty(value)
    if not isinstance(value, ast.Constant):
        return False
    if slot.state is State.TRUE:
        return bool(value.value)
    return (
        value.value is None if slot.state is State.NONE else slot.state is State.EQUAL and value.value == slot.literal
    )


def _is_false(slot: Slot) -> bool:
    """Whether a tensor that holds a flag, or a count, is asked whether it is still unset."""
    return slot.key is None and (slot.state is State.FALSE or (slot.state is State.EQUAL and slot.literal == 0))


def _fills(change: Change) -> bool:
    """Whether it adds to the existing value: `xs.append(x)`, `d[k] = x`, `n += 1`."""
    return change.how in FILL or change.how == "+=" or change.key is not None


def _is_literally_other(value: ast.expr | None, slot: Slot) -> bool:
    if slot.state is State.TRUE:
        return isinstance(value, ast.Constant) and not value.value
    if slot.state is State.EQUAL:
        return isinstance(value, ast.Constant) and value.value != slot.literal
    return isinstance(value, (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict)) and not is_empty(value)


def _is_moved(value: ast.expr) -> bool:
    """`x.to(...)`: the result is on the requested device."""
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "cuda")


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _may_be_none(value: ast.expr) -> bool:
    """Whether it may well be None: the literal, or a lookup that may fail."""
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, ast.IfExp):
        return _may_be_none(value.body) or _may_be_none(value.orelse)
    return isinstance(value, ast.Call) and last_name(value.func) in ("get", "pop", "getattr")


def _is_some(value: ast.expr, slot: Slot) -> bool:
    """Whether it is certainly not None: a literal, a computed value, or a value made from the slot itself."""
    if isinstance(value, ast.Constant):
        return value.value is not None
    made = (ast.BinOp, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp, ast.DictComp)
    if isinstance(value, made) or mentions(value, slot.path):
        return True
    path = dotted(value.func) if isinstance(value, ast.Call) else None
    return path is not None and path.partition(".")[0] in ("torch", "np", "numpy", "F")


def is_empty(value: ast.expr) -> bool:
    """`[]`, `{}`, `dict()`, `0`, `None`: values that programs write for false."""
    if isinstance(value, ast.Constant):
        return not value.value
    if isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        return not value.elts
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and not value.args and last_name(value.func) in _EMPTY_MAKERS


def mentions(value: ast.expr, path: str) -> bool:
    """Whether the expression reads the path."""
    return any(dotted(each) == path for each in subtree(value) if isinstance(each, (ast.Name, ast.Attribute)))
