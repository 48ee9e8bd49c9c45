"""Reads that are delayed within their block: what may run before them without changing their results."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms import habits, writes
from torchperf_lint.idioms.sync.scalars import is_read
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_BUILTINS = frozenset(f"builtins.{name}" for name in "float int bool len min max round abs sum str isinstance".split())
_SAME_MEMORY = frozenset("detach data view reshape squeeze unsqueeze float to cpu cuda contiguous".split())
_NEW = frozenset("softmax log_softmax sigmoid exp log argsort isnan isfinite".split())
_ENDS_HERE = frozenset("item tolist backward mean sum double clone log exp sqrt isnan isfinite size dim".split())
_TAKES_AND_LEAVES = frozenset(
    "backward manual_backward float int print isnan isfinite isinf round scale format".split()
)


class Delayed(NamedTuple):
    """A read `name = t.item()` that is to run later in its block.

    `tensor` is the name that is read then, if `t` is a plain one. `private` says that only the function's
    own arithmetic uses the tensor until then, `hidden` that only the function's own statements use `name`.
    """

    read: HostRead
    name: str
    statement: ast.Assign
    tensor: str | None
    private: bool
    hidden: bool


def delayed(model: Model, read: HostRead) -> Delayed | None:
    """The read as one that may be delayed; None unless a statement of its own binds it to a plain name."""
    statement = model.statement_of(read.site.node)
    given = read.parent
    if read.unfixed is not None or not isinstance(given, cst.Assign) or given.value is not read.site.node:
        return None
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not _has_its_row(model, statement):
        return None
    tensor = read.tensor.value if isinstance(read.tensor, cst.Name) else None
    uses = model.uses(target.id, read.site, read.hot_path)
    is_script = model.function_name(read.site) == "<module>" and not _sees_all_names(model)
    hidden = (uses.local or is_script) and not uses.any_nested
    private = _is_private(model, read) if tensor is not None else _is_new(model, read.tensor)
    return Delayed(read, target.id, statement, tensor, private and not habits.replays_graphs(model.code), hidden)


def _sees_all_names(model: Model) -> bool:
    """Whether some code may read the names at the top of the file without naming them."""
    reads = model.code.calls_plainly("globals", "locals", "vars", "eval", "exec")
    return reads or model.code.names("__dict__", "__main__", "*")


def _has_its_row(model: Model, statement: ast.stmt) -> bool:
    """Whether nothing else is on the statement's line, neither code nor a suppression."""
    line = model.source.line(statement.lineno).encode()
    around = line[: statement.col_offset] + line[statement.end_col_offset :]
    before, after = line[: statement.col_offset], line[statement.end_col_offset :].strip()
    return (
        statement.lineno == statement.end_lineno
        and not before.strip()
        and (not after or after.startswith(b"#"))
        and not any(word in around for word in (b"noqa", b"# type:"))
    )


def _is_new(model: Model, tensor: cst.BaseExpression) -> bool:
    """Whether the expression makes a tensor that no other code holds."""
    made = model.ast_of(tensor)
    return isinstance(made, ast.Call) and writes.is_made(model, model.function_of(model.site(tensor)), made)


def _is_private(model: Model, read: HostRead) -> bool:
    """Whether the function makes the tensor and only computes with it: no other code can write to it or store it."""
    assert isinstance(read.tensor, cst.Name)
    name, function = read.tensor.value, model.function_of(read.site)
    others = model.remember(("other uses", name, function), lambda: _other_uses(model, name, function))
    own = model.ast_of(read.tensor)
    return others is not None and all(use is own for use in others)


def _other_uses(model: Model, name: str, function: FunctionInfo) -> list[ast.Name] | None:
    """The uses of a name other than computing with its tensor; None unless the function provably makes the tensor."""
    bound = model.all_bindings(function, name)
    around = function.parents
    if not bound or not all(_is_bound_anew(model, function, each) for each in bound):
        return None
    uses = _uses(function).get(name, [])
    loads = [use for use in uses if isinstance(use.ctx, ast.Load) and not _is_number(model, function, use)]
    return [use for use in loads if not _only_computes(model, function, use, around)]


def _uses(function: FunctionInfo) -> dict[str, list[ast.Name]]:
    """The positions of the function's names, by name."""
    return function.note(("uses", function), lambda: _by_name(function))


def _by_name(function: FunctionInfo) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in function.parents:
        if isinstance(node, ast.Name):
            found.setdefault(node.id, []).append(node)
    return found


def _is_bound_anew(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the expression makes a tensor that no other code holds, or reads a number from it."""
    if is_read(node) or isinstance(node, ast.Compare) or writes.is_made(model, function, node):
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _NEW:
        return False
    return model.value_in(function, node.func.value).holds_tensors


def _is_number(model: Model, function: FunctionInfo, use: ast.Name) -> bool:
    """Whether the name is already bound to the number read from the tensor."""
    value = model.value_in(function, use)
    return value.kind is Kind.NUMBER and not value.mixed


def _only_computes(model: Model, function: FunctionInfo, node: ast.AST, around: dict[ast.AST, ast.AST]) -> bool:
    parent = around[node]
    if isinstance(parent, ast.Attribute):
        call = around[parent]
        if parent.attr in _SAME_MEMORY:
            is_called = isinstance(call, ast.Call) and call.func is parent
            return (is_called or parent.attr == "data") and _only_computes(
                model, function, call if is_called else parent, around
            )
        if parent.attr in torch_api.METADATA_ATTRIBUTES or parent.attr == "device":
            return True
        return parent.attr in _ENDS_HERE and isinstance(call, ast.Call) and call.func is parent
    if isinstance(parent, ast.Call):
        if last_name(parent.func) in _TAKES_AND_LEAVES:
            return True
        return model.value_in(function, parent.func).ref in _BUILTINS
    if isinstance(parent, ast.Expr):
        return True
    return isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.FormattedValue, ast.Return))


def relies_on_waits(model: Model) -> bool:
    """Whether the file copies to the host without waiting: any read may be the wait for such a copy."""
    for record in model.calls_named("to", "copy_", "cpu"):
        flags = [keyword.value for keyword in record.call.keywords if keyword.arg in ("non_blocking", None)]
        flags += record.call.args[1:]
        is_set = any(not (isinstance(flag, ast.Constant) and not flag.value) for flag in flags)
        if not is_set:
            continue
        to_host = any("cpu" in ast.unparse(argument).lower() for argument in record.call.args[:1])
        if last_name(record.call.func) == "copy_" or to_host:
            return True
    return False
