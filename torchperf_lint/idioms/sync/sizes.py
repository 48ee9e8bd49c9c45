"""Calls whose result size depends on the data, and sizes that the program has read already."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.writes import writes_of
from torchperf_lint.knowledge.torch_api import SIZE_ARGUMENTS, SIZED_BY_DATA
from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import COMPREHENSIONS, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

_BIND_A_NAME = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar),
)


def hot_calls_sized_by_data(model: Model) -> Iterator[tuple[Site, tuple[Because, ...]]]:
    """The calls, in every step on device tensors, that must know the data to allocate their result."""
    for site in model.sites(tuple(sorted(SIZED_BY_DATA)), True, lambda record: _is_sized_by_data(model, record)):
        meaning = model.ast_of(site.node)
        function = model.function_of(site)
        assert isinstance(meaning, ast.Call)
        values = model.values_in(function, model.statement_of(site.node))
        counted = _counted(meaning, _name_of(meaning, values), values)
        if counted is not None:
            yield site, values[counted].because


def is_length(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a number is how many items there are: `len(x)`, `x.shape[0]`, `x.size(0)`, or a name bound to one."""
    if isinstance(node, ast.Name):
        if function.bound_names.count(node.id) != 1 or _is_bound_otherwise(function, node):
            return False
        bound = model.only_binding(function, node.id)
        return is_length(model, function, bound) if bound is not None else _is_dimension(model, function, node.id)
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and _is_shape(model, function, node.value)
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 0
    is_of_tensor = isinstance(node.func, ast.Attribute) and model.value_in(function, node.func.value).is_tensor
    is_of_tensor = is_of_tensor and model.value_in(function, node.func).function is None
    return (isinstance(node.func, ast.Name) and node.func.id == "len" and model.keeps_builtin("len")) or (
        is_of_tensor and bool(node.args) and last_name(node.func) == "size"
    )


def _is_bound_otherwise(function: FunctionInfo, name: ast.Name) -> bool:
    """Whether a lambda, a display or a pattern may bind the name as well."""
    above: ast.AST | None = function.parents.get(name)
    while above is not None and above is not function.node:
        if isinstance(above, (ast.Lambda, *COMPREHENSIONS)):
            return True
        above = function.parents.get(above)
    return any(isinstance(each, ast.Match) for each in function.nodes)


def _is_dimension(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether a name is one of those that a shape is taken apart to: `rows, columns = x.shape`."""
    return any(
        isinstance(statement, ast.Assign)
        and isinstance(target := statement.targets[0], ast.Tuple)
        and any(isinstance(each, ast.Name) and each.id == name for each in target.elts)
        and _is_shape(model, function, statement.value)
        for statement in function.statements
    )


def _is_shape(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """`x.shape`, `x.size()`."""
    owner = node.func if isinstance(node, ast.Call) and not node.args else node
    if not isinstance(owner, ast.Attribute) or owner.attr != ("size" if isinstance(node, ast.Call) else "shape"):
        return False
    return model.value_in(function, owner.value).is_tensor


def _is_sized_by_data(model: Model, record: CallRecord) -> bool:
    """Cheap checks first: the number of arguments and the function."""
    call = record.call
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return False
    values = model.values_in(record.function, record.statement)
    return _counted(call, _name_of(call, values), values) is not None


def _name_of(call: ast.Call, values: Mapping[ast.expr, Value]) -> str:
    """The function's name in torch, or the method's."""
    callee = values.get(call.func, UNKNOWN)
    if callee.kind is Kind.LIBRARY:
        return (callee.ref or "").rpartition(".")[2] if (callee.ref or "").startswith("torch.") else ""
    return last_name(call.func) or "" if callee.kind is Kind.METHOD and callee.function is None else ""


def _counted(call: ast.Call, name: str, values: Mapping[ast.expr, Value]) -> ast.expr | None:
    """The device tensor whose data decide the size; None if the call passes the size or counts nothing there."""
    if name not in SIZED_BY_DATA:
        return None
    is_method = values.get(call.func, UNKNOWN).kind is Kind.METHOD
    given = [call.func.value] if is_method and isinstance(call.func, ast.Attribute) else []
    given += call.args
    keywords = {each.arg: each.value for each in call.keywords}
    if name == "where" and (len(given) != 1 or keywords):
        return None
    known, position = SIZE_ARGUMENTS.get(name, (None, None))
    if known in keywords or (position is not None and len(given) > position):
        return None
    counted = given[0] if given else keywords.get("input")
    if name == "repeat_interleave" and (len(given) > 1 or "repeats" in keywords):
        counted = keywords.get("repeats", given[1] if len(given) > 1 else None)
        if counted is None or values.get(counted, UNKNOWN).kind is not Kind.TENSOR:
            return None
    value = UNKNOWN if counted is None else values.get(counted, UNKNOWN)
    return counted if value.holds_tensors and value.device.on_accelerator else None


def size_read_before(model: Model, site: Site) -> str | None:
    """The name to which the function has bound the size of the call's result: `n = int(lengths.sum())`."""
    call = model.ast_of(site.node)
    function = model.function_of(site)
    assert isinstance(call, ast.Call)
    name = last_name(call.func)
    wanted = _sizing(call, name, _is_method(model, site))
    reading = {"repeat_interleave": _is_read_sum, "one_hot": _is_read_maximum}.get(name or "")
    if reading is None or not isinstance(wanted, ast.Name) or model.value_in(function, wanted).scalar is True:
        return None
    path, place = wanted.id, model.place(site.node)
    if _times_bound(function, path) > 1:
        return None
    for position, statement in enumerate(place.before):
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name) and reading(statement.value, path) and _times_bound(function, target.id) == 1:
            ways = [*place.before[position + 1 :], place.statement]
            return None if any(_may_write(model, function, each, path, call) for each in ways) else target.id
    return None


def _sizing(call: ast.Call, name: str | None, is_method: bool) -> ast.expr | None:
    """The argument whose numbers decide the size: the repeats of `repeat_interleave`, the classes of `one_hot`."""
    keywords = {each.arg: each.value for each in call.keywords}
    if "input" in keywords or "tensor" in keywords:
        return None
    if name == "repeat_interleave":
        place = 0 if is_method or (len(call.args) == 1 and "repeats" not in keywords) else 1
        return keywords.get("repeats", call.args[place] if len(call.args) > place else None)
    return call.args[0] if call.args and not is_method else None


def _times_bound(function: FunctionInfo, name: str) -> int:
    """How often a name is bound in a function, its parameters, comprehensions and inner functions included."""
    times = 0
    for node in function.nodes:
        if isinstance(node, ast.Name):
            times += node.id == name and not isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.arg):
            times += node.arg == name
        elif isinstance(node, (ast.Nonlocal, ast.Global)):
            times += 2 * (name in node.names)
        elif isinstance(node, ast.alias):
            times += name == (node.asname or node.name.partition(".")[0])
        elif isinstance(node, _BIND_A_NAME):
            times += node.name == name
        elif isinstance(node, ast.MatchMapping):
            times += node.rest == name
    return times


def _may_write(model: Model, function: FunctionInfo, statement: ast.stmt, name: str, but: ast.Call) -> bool:
    """Whether a statement may change the tensor's numbers: by a write in place, or a call that receives it."""
    if any(_is_written(model, function, written, name) for written in writes_of(statement)):
        return True
    for node in subtree(statement):
        if not isinstance(node, ast.Call) or node is but:
            continue
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(each, ast.Name) and each.id == name for part in given for each in _handed(part)):
            called = model.value_in(function, node.func)
            writes = (last_name(node.func) or "").endswith("_")
            of_tensor = called.kind is Kind.METHOD and called.element is not None and called.element.holds_tensors
            if writes or not (called.kind is Kind.LIBRARY or (of_tensor and called.function is None)):
                return True
    return False


def _handed(node: ast.expr) -> list[ast.expr]:
    """The objects that a call receives with an argument: itself, or the items of a tuple, list or dict."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return [each for part in node.elts for each in _handed(part)]
    if isinstance(node, ast.Dict):
        return [each for part in node.values for each in _handed(part)]
    return _handed(node.value) if isinstance(node, (ast.Starred, ast.Subscript)) else [node]


def _is_written(model: Model, function: FunctionInfo, written: ast.expr, name: str) -> bool:
    """Whether a write may reach the tensor: by its name, or by another name that may be the tensor's."""
    if any(isinstance(node, ast.Name) and node.id == name for node in subtree(written)):
        return True
    value = model.value_in(function, written)
    if value.kind in (Kind.NUMBER, Kind.STRING, Kind.LIBRARY, Kind.MODULE):
        return False
    return not (value.dtype or "").startswith(("float", "bfloat"))


def _is_method(model: Model, site: Site) -> bool:
    return model.value(site.node.func).kind is Kind.METHOD


def _is_read_sum(node: ast.expr, path: str) -> bool:
    """`int(path.sum())`, `path.sum().item()`."""
    inner = _read(node)
    return isinstance(inner, ast.Call) and _is_reduction(inner, "sum", path)


def _is_read_maximum(node: ast.expr, path: str) -> bool:
    """`int(path.max()) + 1`, `path.max().item() + 1`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    inner = _read(node.left)
    one = isinstance(node.right, ast.Constant) and node.right.value == 1
    return one and isinstance(inner, ast.Call) and _is_reduction(inner, "max", path)


def _read(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    return node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "int" and len(node.args) == 1 else None


def _is_reduction(call: ast.Call, name: str, path: str) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != name or call.keywords:
        return False
    own = not call.args and dotted(call.func.value) == path
    return own or (len(call.args) == 1 and dotted(call.func.value) == "torch" and dotted(call.args[0]) == path)
