"""Names that a use shows to stand for data of the host: `x.numpy()`, `cv2.resize(x, ...)`, `x.astype(...)`.

Told from the text of the function alone: the name is bound once, and the use comes in any case once that is done.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions, host_only
from torchperf_lint.model.index import dotted, last_name, names_in
from torchperf_lint.model.meaning.values import Device, Kind, Value
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.model.index import CallRecord, FunctionInfo

_ASKS = re.compile(conventions.ACCELERATOR_NAMES + r"|cpu|isinstance|is_tensor|type")
_CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SOMETIMES = (ast.If, ast.Try, ast.While, ast.Match)


def shown_on_host(function: FunctionInfo) -> Mapping[str, Kind]:
    """The names of the function that are shown to stand for data of the host; NUMPY if for an array."""
    return function.index.note(("on host", function), lambda: dict(_shown(function)))


def on_host(value: Value, shown: Kind) -> Value:
    """The value of such a name."""
    if shown is Kind.NUMPY and (value.holds_tensors or value.kind in (Kind.UNKNOWN, Kind.METHOD)):
        return Value(Kind.NUMPY)
    if value.holds_tensors:
        return value._replace(device=Device.CPU, because=())
    return Value(device=Device.CPU) if value.kind in (Kind.UNKNOWN, Kind.METHOD) else value


def _shown(function: FunctionInfo) -> Iterator[tuple[str, Kind]]:
    shown = [
        (name, kind, each) for each in function.calls_made for node, kind in _proves(each.call) if (name := _root(node))
    ]
    for name, kind, record in sorted(shown, key=lambda each: each[1] is Kind.NUMPY):
        if _comes_in_any_case(record, name):
            yield name, kind


def _proves(call: ast.Call) -> Iterator[tuple[ast.expr, Kind]]:
    """What is given to the call that only data of the host survives, and whether it is an array."""
    path, func = dotted(call.func) or "", call.func
    owner, _, name = path.rpartition(".")
    first = call.args[0] if call.args else None
    if isinstance(func, ast.Attribute) and func.attr == "numpy" and not call.keywords:
        yield func.value, Kind.TENSOR
    elif isinstance(func, ast.Attribute) and func.attr in host_only.ARRAY_METHODS:
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
    elif path in host_only.GIVEN_ARRAYS or owner == host_only.OPENCV:
        yield first, Kind.NUMPY
        yield from ((each, Kind.TENSOR) for each in call.args[1:])
    elif path in host_only.GIVEN_HOST_DATA or (owner in host_only.NUMPY_ROOTS and name in host_only.TAKES_HOST_DATA):
        yield first, Kind.TENSOR


def _root(node: ast.expr) -> str | None:
    """`x` of `x`, `x.detach()`, `x.sum(0).float()`: a name for what lives where the whole does."""
    while not isinstance(node, ast.Name):
        func = node.func if isinstance(node, ast.Call) else node
        if not isinstance(func, ast.Attribute) or func.attr not in host_only.STAYS_THERE:
            return None
        node = func.value
    return node.id


def _comes_in_any_case(record: CallRecord, name: str) -> bool:
    """Whether the name is bound once in the function, and the call runs whenever that has been done."""
    function, index = record.function, record.function.index
    if index.bound_names(function).count(name) != 1 or name in index.rebound_elsewhere or _is_conditional(record):
        return False
    around = {None} if name in function.parameter_names else _around_binding(function, name)
    current = record.statement
    while True:
        place = index.places[current]
        earlier = place.block[: place.position]
        if any(isinstance(each, ast.If) and _leaves_for(each, name) for each in earlier):
            return False
        if place.parent in around:
            return True
        if place.parent is None or isinstance(place.parent, _SOMETIMES):
            return False
        current = place.parent


def _around_binding(function: FunctionInfo, name: str) -> set[ast.stmt | None]:
    """The statement that binds the name, if it holds others, and those around it."""
    for statement in function.statements:
        parts = [statement.target] if isinstance(statement, (ast.For, ast.AsyncFor)) else [statement]
        if isinstance(statement, (ast.If, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)):
            continue
        if any(
            isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
            for part in parts
            for node in subtree(part)
        ):
            around: set[ast.stmt | None] = {None, statement}
            current = function.index.places[statement].parent
            while current is not None:
                around.add(current)
                current = function.index.places[current].parent
            return around
    return set()


def _is_conditional(record: CallRecord) -> bool:
    parents = record.function.parents
    node = parents.get(record.call)
    while node is not None and not isinstance(node, ast.stmt):
        if isinstance(node, _CONDITIONAL):
            return True
        node = parents.get(node)
    return False


def _leaves_for(branch: ast.If, name: str) -> bool:
    """Whether the branch may leave, on a question about the name or about where things are."""
    leaves = any(isinstance(node, _LEAVES) for part in (*branch.body, *branch.orelse) for node in subtree(part))
    words = [last_name(node) or "" for node in subtree(branch.test) if isinstance(node, (ast.Name, ast.Attribute))]
    return leaves and (name in names_in(branch.test) or any(_ASKS.search(word.lower()) for word in words))
