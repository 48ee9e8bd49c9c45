"""Layers of modules that follow each other: in a Sequential, or by calls in `forward`."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo


class Pair(NamedTuple):
    """The call that makes a layer, and the line of a layer that takes exactly the first one's output."""

    first: Site
    row: int


def followed(model: Model, firsts: frozenset[str], seconds: frozenset[str]) -> Iterator[Pair]:
    """Pairs of consecutive layers of two kinds, given by qualified names, in source order."""
    found = [*_in_sequentials(model, firsts, seconds), *_in_classes(model, firsts, seconds)]
    yield from sorted(found, key=lambda pair: pair.first.start)


def _is_one(model: Model, node: ast.expr, function: FunctionInfo, refs: frozenset[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    value = model.value_in(function, node.func)
    return value.kind is Kind.LIBRARY and value.ref in refs


def _in_sequentials(model: Model, firsts: frozenset[str], seconds: frozenset[str]) -> Iterator[Pair]:
    for record in model.calls_named("Sequential"):
        if not _is_one(model, record.call, record.function, frozenset({"torch.nn.Sequential"})):
            continue
        for before, after in itertools.pairwise(record.call.args):
            if _is_one(model, before, record.function, firsts) and _is_one(model, after, record.function, seconds):
                site = model.site_at(before, record.statement)
                if site is not None:
                    yield Pair(site, after.lineno)


def _in_classes(model: Model, firsts: frozenset[str], seconds: frozenset[str]) -> Iterator[Pair]:
    for cls in model.classes:
        made = _made(cls)
        for inner, outer in sorted(_chains(cls)):
            first, second = made.get(inner), made.get(outer)
            if first is None or second is None or _uses(cls, inner) != 1 or _uses(cls, outer) != 1:
                continue
            (call, statement, function), (after, _, owner) = first, second
            if _is_one(model, call, function, firsts) and _is_one(model, after, owner, seconds):
                site = model.site_at(call, statement)
                if site is not None:
                    yield Pair(site, after.lineno)


def _made(cls: ClassInfo) -> dict[str, tuple[ast.expr, ast.stmt, FunctionInfo]]:
    """The values of the class's attributes that are bound once."""
    found: dict[str, list[tuple[ast.expr, ast.stmt, FunctionInfo]]] = {}
    for function in cls.methods.values():
        for node in function.nodes:
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                path = dotted(target)
                if path is not None and path.startswith(f"{function.self_name}."):
                    found.setdefault(path, []).append((node.value, node, function))
    return {path: calls[0] for path, calls in found.items() if len(calls) == 1}


def _uses(cls: ClassInfo, path: str) -> int:
    """How often the class reads the attribute."""
    return sum(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == path
        for function in cls.methods.values()
        for node in function.nodes
    )


def _chains(cls: ClassInfo) -> set[tuple[str, str]]:
    """`self.b(self.a(x))`, or `x = self.a(x)` and `x = self.b(x)` as the next statement: the two paths."""
    found = set()
    for function in cls.methods.values():
        for node in function.nodes:
            if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
                found.add((dotted(node.args[0].func) or "", dotted(node.func) or ""))
            body = getattr(node, "body", None)
            if isinstance(body, list):
                found |= _lines(body)
    return found


def _lines(block: list[ast.stmt]) -> set[tuple[str, str]]:
    found = set()
    for before, after in itertools.pairwise(block):
        if not (isinstance(before, ast.Assign) and isinstance(after, ast.Assign)):
            continue
        inner, outer = before.value, after.value
        if not (isinstance(inner, ast.Call) and isinstance(outer, ast.Call) and len(outer.args) == 1):
            continue
        name = last_name(before.targets[0]) if isinstance(before.targets[0], ast.Name) else None
        taken = outer.args[0].id if isinstance(outer.args[0], ast.Name) else None
        again = isinstance(after.targets[0], ast.Name) and after.targets[0].id == name
        if name is not None and name == taken and again:
            found.add((dotted(inner.func) or "", dotted(outer.func) or ""))
    return found
