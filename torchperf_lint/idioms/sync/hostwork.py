"""Whether the program works on the host, in the same step, on data that it copied there, directly or in calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.knowledge.host_work import ARITHMETIC, HOST_LIBRARIES, NEEDS_HOST, PUTS_TOGETHER, WRITES_OUT
from torchperf_lint.model import bounds
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import children, own_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_NO_ARITHMETIC = HOST_LIBRARIES - {"numpy"}
_ABOUT = frozenset({"shape", "size", "ndim", "dtype", "device"})


def worked_on_at_once(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether the same step works on the host on what the site copies.

    The copy is traced through names, inner loops and containers, and into the project's functions. What these reckon
    with NumPy in a training step, the device could reckon.
    """
    copy = model.ast_of(site.node)
    if copy is None:
        return False
    function = model.function_of(site)
    region = function.body if hot_path.loop is None else hot_path.loop.body
    later = [each for each in _statements(region) if (each.end_lineno or 0) >= copy.lineno]
    held = _Held({copy})
    held.spread(later)
    libraries = _NO_ARITHMETIC if hot_path.trains and not hot_path.evaluates else HOST_LIBRARIES
    return any(
        _needs_host(model, function, call, held, libraries) and model.hot_path_of(statement) is not None
        for statement in later
        for call in _calls(statement)
    )


class _Held:
    """The expressions, names and paths that are the copy, or contain it."""

    def __init__(self, nodes: set[ast.expr], names: Iterable[str] = ()) -> None:
        self.nodes = nodes
        self.names = set(names)

    def has(self, node: ast.AST) -> bool:
        """Whether the expression uses the copy, not only its length or shape."""
        if node in self.nodes:
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) in self.names:
            return True
        if isinstance(node, ast.Attribute) and node.attr in _ABOUT:
            return False
        if isinstance(node, ast.Call) and last_name(node.func) in ("len", "isinstance"):
            return False
        return any(self.has(child) for child in children(node) if not isinstance(child, ast.stmt))

    def spread(self, statements: list[ast.stmt]) -> None:
        """Trace the copy through the statements, until no other name holds it."""
        known = -1
        while known < len(self.names):
            known = len(self.names)
            for statement in statements:
                self._follow(statement)

    def _follow(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if statement.value is not None and self.has(statement.value):
                for target in targets:
                    self._bind(target)
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            self._walk_over(statement.target, statement.iter)
        for node in own_nodes(statement):
            if isinstance(node, ast.comprehension):
                self._walk_over(node.target, node.iter)
            elif isinstance(node, ast.Call):
                self._collect(node)

    def _collect(self, call: ast.Call) -> None:
        """Record the container in `kept.append(x)`."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in FILL and any(map(self.has, _given(call))):
            self._bind(func.value)

    def _walk_over(self, target: ast.expr, source: ast.expr) -> None:
        """The names of a loop's item: in `for i, (x, y) in enumerate(zip(xs, ys))` each from its own source."""
        parts = target.elts if isinstance(target, ast.Tuple) else []
        name = last_name(source.func) if isinstance(source, ast.Call) else None
        if isinstance(source, ast.Call) and name == "enumerate" and len(parts) == 2 and source.args:
            self._walk_over(parts[1], source.args[0])
        elif isinstance(source, ast.Call) and name == "zip" and len(parts) == len(source.args):
            for part, given in zip(parts, source.args, strict=True):
                self._walk_over(part, given)
        elif self.has(source):
            self._bind(target)

    def _bind(self, target: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part)
            return
        while isinstance(target, (ast.Subscript, ast.Starred)):
            target = target.value
        path = dotted(target)
        if path is not None:
            self.names.add(path)


def _needs_host(
    model: Model, function: FunctionInfo, call: ast.Call, held: _Held, libraries: frozenset[str], depth: int = 0
) -> bool:
    """Whether a call in the function works on the host on the copy in its arguments, by these libraries or by name."""
    given = [place for place, each in enumerate(_given(call)) if held.has(each)]
    if not given:
        return False
    name = last_name(call.func)
    if name in NEEDS_HOST or name in WRITES_OUT:
        return True
    if name == "step" and "env" in (dotted(call.func) or "").lower():
        return True
    callee = model.value_in(function, call.func)
    library = (callee.ref or "").partition(".")[0]
    if depth and name not in PUTS_TOGETHER and library in HOST_LIBRARIES:
        return library in libraries or name not in ARITHMETIC
    called = callee.function
    if called is not None and any(map(_compiles_for_host, called.decorators)):
        return True
    if called is None or depth == bounds.MOST_CALLS_TO_HOST_WORK or called.is_module:
        return False
    named = called.parameter_names[called.self_name is not None :]
    words = [*named[: len(call.args)], *(keyword.arg for keyword in call.keywords)]
    inner = _Held(set(), (words[place] or "" for place in given if place < len(words)))
    statements = list(_statements(called.body))
    inner.spread(statements)
    return any(_needs_host(model, called, each, inner, libraries, depth + 1) for each in _all_calls(statements))


def _compiles_for_host(decorator: ast.expr) -> bool:
    """`@njit`, `@numba.jit(nopython=True)`."""
    return last_name(decorator.func if isinstance(decorator, ast.Call) else decorator) in ("jit", "njit")


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _all_calls(statements: list[ast.stmt]) -> Iterator[ast.Call]:
    for statement in statements:
        yield from _calls(statement)


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    return (node for node in own_nodes(statement) if isinstance(node, ast.Call))


def _statements(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and those nested in them, without those of functions and classes."""
    for statement in block:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement
            for node in children(statement):
                if isinstance(node, ast.stmt):
                    yield from _statements([node])
                elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
                    yield from _statements(node.body)
