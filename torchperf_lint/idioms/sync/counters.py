"""Counters in buffers, `self.ptr[0] = ptr`: the device gets every number from the host, which need not ask for it."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.idioms.sync.host_numbers import is_host_number
from torchperf_lint.knowledge.torch_api import METADATA_ATTRIBUTES
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo

_WRITE_A_NUMBER = frozenset({"fill_", "add_", "sub_", "remainder_", "fmod_"})
_READS = frozenset({"item", "tolist", "size", "dim", "numel"})
_WRITE_ZERO = frozenset({"zero_"})


def is_host_counter(model: Model, read: HostRead) -> Because | None:
    """The write of a number that shows that the host knows what is read: its class writes nothing but such numbers."""
    function, node = model.function_of(read.site), model.ast_of(read.tensor)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        node = node.value
    path = dotted(node) if isinstance(node, ast.Attribute) else None
    if function.cls is None or path is None or not isinstance(node, ast.Attribute):
        return None
    if path != f"{function.self_name}.{node.attr}":
        return None
    writes = list(_writes(model, function.cls, node.attr))
    if not writes or not all(is_number for *_, is_number in writes) or _is_written_outside(model, node.attr):
        return None
    method, row, _ = writes[0]
    text = f"only numbers of the host are written to `{path}`: one that the object keeps beside it needs no read"
    return Because(row, text, None if model.has(method) else method.path)


def _writes(model: Model, cls: ClassInfo, name: str) -> Iterator[tuple[FunctionInfo, int, bool]]:
    """Where the methods of a class, but its constructor, write to an attribute, and whether that is a number."""
    for each in model.lineage(cls):
        for method in each.methods.values():
            if method.name != "__init__":
                written = _written_by(model, method, f"{method.self_name}.{name}")
                yield from ((method, row, is_number) for row, is_number in written)


def _written_by(model: Model, method: FunctionInfo, path: str) -> Iterator[tuple[int, bool]]:
    """The writes of a method; a use that is no plain read either may be one of nobody knows what."""
    home = model.home(method)
    for node in method.nodes:
        if not isinstance(node, ast.Attribute) or dotted(node) != path:
            continue
        whole: ast.expr = node
        parent = method.parents.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node:
            whole, parent = parent, method.parents.get(parent)
        if isinstance(getattr(whole, "ctx", None), ast.Store):
            value = parent.value if isinstance(parent, (ast.Assign, ast.AugAssign)) else None
            is_number = value is not None and is_host_number(value, functools.partial(home.value_in, method))
            yield node.lineno, is_number and (whole is not node or isinstance(parent, ast.AugAssign))
            continue
        call = method.parents.get(parent) if isinstance(parent, ast.Attribute) else None
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            if parent.attr in _WRITE_A_NUMBER:
                given = call.args[0] if len(call.args) == 1 and not call.keywords else None
                yield node.lineno, given is not None and home.value_in(method, given).kind is Kind.NUMBER
            elif parent.attr in _WRITE_ZERO:
                yield node.lineno, True
            elif parent.attr not in _READS:
                yield node.lineno, False
        elif not _only_reads(parent):
            yield node.lineno, False


def _only_reads(parent: ast.AST | None) -> bool:
    """Whether an expression or a statement gets no more than the number: `int(x)`, `x > 3`, `x + 1`, `x.device`."""
    if isinstance(parent, ast.Call):
        return dotted(parent.func) in ("int", "float", "bool", "print", "range")
    if isinstance(parent, ast.Attribute):
        return parent.attr in METADATA_ATTRIBUTES or parent.attr == "device"
    return isinstance(parent, (ast.Compare, ast.BinOp, ast.FormattedValue, ast.If, ast.While))


def _is_written_outside(model: Model, name: str) -> bool:
    """Whether other code of the file stores to an attribute of this name of another object, or calls its methods."""
    for function in model.functions:
        for node in () if function.is_module else function.nodes:
            if isinstance(node, ast.Attribute) and node.attr == name and dotted(node.value) != function.self_name:
                parent = function.parents.get(node)
                if isinstance(node.ctx, ast.Store) or isinstance(parent, (ast.Subscript, ast.Attribute)):
                    return True
    return False
