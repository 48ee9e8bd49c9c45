"""Backward passes that retain their graph although no other pass can use it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

_BACKWARD = ("backward", "manual_backward")
_USES_GRAPHS = ("grad", "jacobian", "hessian", "jvp", "vjp", "register_hook")
_HARMLESS_KINDS = (Kind.NUMBER, Kind.STRING, Kind.MODULE, Kind.OPTIMIZER, Kind.SCALER, Kind.LOADER, Kind.METRIC)


class LastBackward(NamedTuple):
    """A backward pass with `retain_graph=True` that is the only or the last one of its step."""

    site: Site
    hot_path: HotPath
    only: bool


def needlessly_retained(model: Model) -> Iterator[LastBackward]:
    """Needlessly retained graphs, in source order; none if a pass passes anything but numbers to the next."""
    for function in model.functions:
        records = [record for record in function.calls_made if last_name(record.call.func) in _BACKWARD]
        retaining = [record for record in records if _retains(record.call)]
        if not retaining or any(last_name(record.call.func) in _USES_GRAPHS for record in function.calls_made):
            continue
        last = max(records, key=lambda record: record.call.lineno)
        if last not in retaining or not _follows_all(last, records):
            continue
        hot_path = model.hot_path_of(last.statement)
        if hot_path is None or _is_part_of_step(model, last) or _carries(model, hot_path.loop, function):
            continue
        if hot_path.loop is None and (_gives_back(function) or _is_given(model, function, last.call)):
            continue
        site = model.site_at(last.call, last.statement)
        if site is not None:
            yield LastBackward(site, hot_path, len(records) == 1)


def _retains(call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    kept = given.get("retain_graph")
    return isinstance(kept, ast.Constant) and kept.value is True and not given.keys() & {"create_graph", None}


def _follows_all(last: CallRecord, records: list[CallRecord]) -> bool:
    """Whether every other backward pass is in the last one's block: none in a loop, a branch, or after it."""
    block = last.place.block
    return all(record.statement in block for record in records)


def _is_part_of_step(model: Model, last: CallRecord) -> bool:
    """`for loss in losses: loss.backward(...)` inside the loop over batches."""
    return any(map(model.walks_loader, last.place.loops()[1:]))


def _gives_back(function: FunctionInfo) -> bool:
    """Whether the function returns anything, which its caller may pass to the next step."""
    return any(isinstance(node, ast.Return) and node.value is not None for node in function.nodes)


def _is_given(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    """Whether a parameter is sent backward, or what arithmetic makes of one: the caller may send it again."""
    pending: list[ast.AST] = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    seen: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            pending += model.all_bindings(function, node.id, grows=True)
        elif isinstance(node, (ast.BinOp, ast.UnaryOp)):
            pending += children(node)
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            pending.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            pending.append(node.func.value)
    return not seen.isdisjoint(function.parameter_names[function.self_name is not None :])


def _carries(model: Model, loop: ast.stmt | None, function: FunctionInfo) -> bool:
    """Whether a pass may see tensors of the previous one: in names that it reads before binding, or in attributes."""
    bound: set[str] = set()
    carried: set[str] = set()
    body = loop.body if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) else function.body
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        bound |= {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
    stored = {path for node in subtree(loop or function.node) for path in _stores(node)}
    for statement in _flat(body):
        for node in _in_order(statement):
            path = dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
            if path is None or path not in stored or path in bound:
                continue
            if isinstance(node.ctx, ast.Load) and not _harmless(model, node, function):  # type: ignore[attr-defined]
                carried.add(path)
        bound |= {path for node in _unconditional(statement) for path in _stores(node)}
    return bool(carried) or any("." in path for path in stored)


def _harmless(model: Model, node: ast.AST, function: FunctionInfo) -> bool:
    return model.value_in(function, node).kind in _HARMLESS_KINDS  # type: ignore[arg-type]


def _stores(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        path = dotted(node)
        if path is not None:
            yield path
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        path = dotted(node.func.value)
        if path is not None:
            yield path


def _in_order(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement in evaluation order, for assignments: value first."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(children(node))


def _flat(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, with those of `with` bodies inlined."""
    for statement in block:
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from _flat(statement.body)
        else:
            yield statement


def _unconditional(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes that always run when the statement does."""
    if not isinstance(statement, (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try)):
        yield from subtree(statement)
