"""Counters in buffers, `self.ptr[0] = ptr`: the device gets every number from the host, which need not ask for it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo

_WRITE_A_NUMBER = frozenset({"fill_", "add_", "sub_", "remainder_", "fmod_"})
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
    if not writes or not all(is_number for *_, is_number in writes):
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
    home = model.home(method)
    for node in method.nodes:
        if not isinstance(node, (ast.stmt, ast.expr)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        if any(_is_of(part, path) for each in targets for part in subtree(each) if isinstance(part, ast.expr)):
            value = getattr(node, "value", None)
            whole = any(isinstance(each, (ast.Tuple, ast.List)) or dotted(each) == path for each in targets)
            is_kept = whole and isinstance(node, ast.Assign)
            is_number = value is not None and home.value_in(method, value).kind is Kind.NUMBER
            yield node.lineno, is_number and not is_kept
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_of(node.func.value, path):
            if node.func.attr in _WRITE_A_NUMBER:
                given = node.args[0] if len(node.args) == 1 else None
                yield node.lineno, given is not None and home.value_in(method, given).kind is Kind.NUMBER
            elif node.func.attr in _WRITE_ZERO or node.func.attr.endswith("_"):
                yield node.lineno, node.func.attr in _WRITE_ZERO
        elif isinstance(node, ast.Call) and any(dotted(each) == path for each in node.args):
            yield node.lineno, _only_reads(node)


def _is_of(node: ast.expr, path: str) -> bool:
    """Whether it is the attribute, or an element of it."""
    return dotted(node.value if isinstance(node, ast.Subscript) else node) == path


def _only_reads(call: ast.Call) -> bool:
    return dotted(call.func) in ("int", "float", "bool", "len", "print", "range")
