"""Names that a use proves to hold host data: `x.numpy()`, `cv2.resize(x, ...)`, `x.astype(...)`.

Decided from the function's syntax alone: the name is bound once, and the use always runs after the binding.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import host_only
from torchperf_lint.model.domain.values import Device, Kind, Value
from torchperf_lint.model.syntax.index import dotted, last_name, names_in
from torchperf_lint.syntax.tree import COMPREHENSIONS, children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Index

_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, *COMPREHENSIONS)
_COMPOUND = (ast.If, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
_SOMETIMES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match)
_INTERRUPTS = frozenset({"KeyboardInterrupt", "SystemExit"})
_UNBOUND = -2


def shown_on_host(function: FunctionInfo) -> Mapping[str, Kind]:
    """The names that are proven to hold host data; NUMPY if an array."""
    index = function.index
    if not function.is_module:
        return index.note(("on host", function), lambda: dict(_shown(function)))
    index.reads.asks("fact", "on host")
    return index.note(("on host", function), lambda: index.reads.unheard(lambda: dict(_shown(function))))


def on_host(value: Value, shown: Kind) -> Value:
    """The value of such a name."""
    if shown is Kind.NUMPY and (value.holds_tensors or value.kind in (Kind.UNKNOWN, Kind.METHOD)):
        return Value(Kind.NUMPY)
    if value.holds_tensors:
        return value._replace(device=Device.CPU, because=())
    return Value(device=Device.CPU) if value.kind in (Kind.UNKNOWN, Kind.METHOD) else value


def may_have_other_arrays(index: Index) -> bool:
    """Whether the file imports a library whose arrays have the methods of NumPy's."""
    index.reads.asks("fact", "other arrays")
    return index.note(
        "other arrays",
        lambda: index.reads.unheard(
            lambda: any(
                _is_of_other_arrays(node)
                for node in index.module.nodes
                if node.__class__ is ast.Import or node.__class__ is ast.ImportFrom
            )
        ),
    )


def _is_of_other_arrays(node: ast.AST) -> bool:
    names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.partition(".")[0] in host_only.OTHER_ARRAYS for name in names)


def _shown(function: FunctionInfo) -> Iterator[tuple[str, Kind]]:
    others = may_have_other_arrays(function.index)
    shown = [
        (name, kind, each)
        for each in function.calls_made
        for node, kind in _proves(each.call, others)
        if (name := _root(node))
    ]
    for name, kind, record in sorted(shown, key=lambda each: each[1] is Kind.NUMPY):
        if _comes_in_any_case(record, name):
            yield name, kind


def _proves(call: ast.Call, others: bool) -> Iterator[tuple[ast.expr, Kind]]:
    """The argument of a call that only host data survives, and whether that is an array."""
    path, func = dotted(call.func) or "", call.func
    owner, _, name = path.rpartition(".")
    if owner in host_only.NUMPY_ROOTS:
        yield from ((each.value, Kind.NUMPY) for each in call.keywords if each.arg == host_only.WRITTEN)
    first = call.args[0] if call.args else None
    if isinstance(func, ast.Attribute) and func.attr == "numpy" and not call.keywords:
        yield func.value, Kind.TENSOR
    elif isinstance(func, ast.Attribute) and func.attr in host_only.ARRAY_METHODS:
        if not others:
            yield func.value, Kind.NUMPY
    elif isinstance(func, ast.Attribute) and func.attr == "transpose" and len(call.args) > 2 and owner != "torch":
        if owner not in host_only.NUMPY_ROOTS:
            yield func.value, Kind.NUMPY
    elif name == host_only.LENGTHS_ON_HOST[0]:
        _, position, keyword = host_only.LENGTHS_ON_HOST
        yield from ((each.value, Kind.TENSOR) for each in call.keywords if each.arg == keyword)
        yield from ((each, Kind.TENSOR) for each in call.args[position : position + 1])
    elif first is None:
        return
    elif path in host_only.GIVEN_ARRAYS or owner == host_only.OPENCV or _writes(owner, name):
        yield first, Kind.NUMPY
        yield from ((each, Kind.TENSOR) for each in call.args[1:])
    elif path in host_only.GIVEN_HOST_DATA or (owner in host_only.NUMPY_ROOTS and name in host_only.TAKES_HOST_DATA):
        yield first, Kind.TENSOR


def _writes(owner: str, name: str) -> bool:
    """`np.copyto(x, y)`: NumPy writes to its first argument."""
    return owner in host_only.NUMPY_ROOTS and name in host_only.WRITES_ARRAYS


def _root(node: ast.expr) -> str | None:
    """`x` of `x`, `x.detach()`, `x.sum(0).float()`: a name for a value on the same device as the whole."""
    while not isinstance(node, ast.Name):
        func = node.func if isinstance(node, ast.Call) else node
        if not isinstance(func, ast.Attribute) or func.attr not in host_only.STAYS_THERE:
            return None
        node = func.value
    return node.id


def _comes_in_any_case(record: CallRecord, name: str) -> bool:
    """Whether the name is bound once in the function, and the call runs, uncaught, whenever it has been bound."""
    function, index = record.function, record.function.index
    if index.bound_names(function).count(name) != 1 or name in index.rebound_elsewhere or _is_conditional(record):
        return False
    bound = _places_of_binding(function, name)
    current, is_behind = record.statement, False
    while True:
        place = index.places[current]
        if not is_behind:
            start = bound.get(place.block_id, _UNBOUND)
            is_behind = start != _UNBOUND
            if start >= place.position:
                return False
            if any(_may_leave(each) for each in place.block[max(start, 0) : place.position]):
                return False
        if place.parent is None:
            return is_behind
        if _catches(place.parent, place.field) or (not is_behind and _skips(place.parent, bound)):
            return False
        current = place.parent


def _places_of_binding(function: FunctionInfo, name: str) -> dict[int, int]:
    """The position of the name's binding in each enclosing block, by the block's id; -1 if the whole block follows."""
    if name in function.parameter_names:
        return {id(function.body): -1}
    for statement in function.statements:
        is_loop = isinstance(statement, (ast.For, ast.AsyncFor))
        parts = [statement.target] if is_loop else [statement]  # type: ignore[attr-defined]
        if isinstance(statement, _COMPOUND):
            continue
        if any(
            isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
            for part in parts
            for node in subtree(part)
        ):
            around = {id(statement.body): -1} if is_loop else {}  # type: ignore[attr-defined]
            current: ast.stmt | None = statement
            while current is not None:
                place = function.index.places[current]
                around[place.block_id] = place.position
                current = place.parent
            return around
    return {}


def _skips(parent: ast.stmt, bound: dict[int, int]) -> bool:
    """Whether the statement may skip its body; the loop that binds the name does not count."""
    is_binding = isinstance(parent, (ast.For, ast.AsyncFor)) and id(parent.body) in bound
    return not is_binding and isinstance(parent, _SOMETIMES)


def _catches(parent: ast.stmt, field: str) -> bool:
    """Whether an error in this part of a statement may be caught there, or the part runs after an error."""
    if isinstance(parent, ast.Try):
        caught = [name for each in parent.handlers for name in (names_in(each.type) if each.type else [""])]
        return field == "handlers" or (field in ("body", "orelse") and not _INTERRUPTS.issuperset(caught))
    if isinstance(parent, (ast.With, ast.AsyncWith)):
        calls = (each.context_expr for each in parent.items if isinstance(each.context_expr, ast.Call))
        return any(last_name(each.func) in host_only.CATCHERS for each in calls)
    return False


def _is_conditional(record: CallRecord) -> bool:
    parents = record.function.parents
    node = parents.get(record.call)
    while node is not None and not isinstance(node, ast.stmt):
        if isinstance(node, _CONDITIONAL):
            return True
        node = parents.get(node)
    return False


def _may_leave(statement: ast.AST, breaks: bool = True) -> bool:
    """Whether the statement may leave the block other than by an error; `breaks`: its loop is outside the block."""
    if isinstance(statement, ast.Return) or (breaks and isinstance(statement, (ast.Break, ast.Continue))):
        return True
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
        return any(_may_leave(each, breaks=False) for each in statement.body) or any(
            _may_leave(each, breaks) for each in statement.orelse
        )
    inner = (ast.stmt, ast.excepthandler, ast.match_case)
    return any(_may_leave(each, breaks) for each in children(statement) if isinstance(each, inner))
