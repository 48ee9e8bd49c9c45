"""Searches in the index of a file: calls of objects that it makes, lambdas around expressions, what a name means."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index

_Objects = tuple[dict[str, list["CallRecord"]], dict[str, list[str]]]


def lambda_around(index: Index, node: ast.expr, statement: ast.stmt) -> FunctionInfo | None:
    """The innermost lambda of the statement whose body contains the expression."""
    lambdas = index.lambdas.get(statement)
    if lambdas is None:
        return None
    around = [each for each in lambdas if isinstance(each.node, ast.Lambda) and _is_inside(node, each.node.body)]
    return around[-1] if around else None


def loops_in(function: FunctionInfo) -> list[tuple[ast.For | ast.AsyncFor | ast.While, FunctionInfo]]:
    """The loops of one function."""
    loops = function.index.loops if function.is_module else function.index.all_loops
    return [each for each in loops if each[1] is function]


def classes_by_head(index: Index) -> list[ClassInfo]:
    """All classes of a file, of which only names, bases, keywords and decorators count as read."""
    index.reads.asks("classes")
    for cls in index.all_classes:
        if cls.scope is not index.module:
            index.reads.mentions(cls.name)
    return index.all_classes


def calls_of_objects(index: Index, cls: str) -> list[CallRecord]:
    """Calls of an object of the class, from its creation: `f = Cls(...)`, `self.f = Cls(...)`, then `f(x)`."""
    calls, names = index.note("calls of objects", lambda: index.reads.unheard(lambda: _calls_of_objects(index)))
    for name in (cls, *names.get(cls, ())):
        index.reads.mentions(name)
    return calls.get(cls, [])


def _calls_of_objects(index: Index) -> _Objects:
    """The calls by the name of the class, and the names that its objects have."""
    found: dict[str, list[CallRecord]] = {}
    names_made_by: dict[str, list[str]] = {}
    for record in index.calls.get("", ()):
        made = record.call.func
        if isinstance(made, ast.Call):
            found.setdefault(last_name(made.func) or "", []).append(record)
    for statement in index.places:
        for name, made_by in _names_of_objects(statement):
            names_made_by.setdefault(made_by, []).append(name)
            found.setdefault(made_by, []).extend(index.calls.get(name, ()))
    return found, names_made_by


def _names_of_objects(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """The names that a statement gives to what calls make, each with the callee's: `f, g = Cls(), Other()`."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        pairs.append((statement.target, statement.value))
    elif isinstance(statement, ast.Assign):
        pairs += [(target, statement.value) for target in statement.targets]
    for target, value in pairs:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            is_plain = not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
            pairs += zip(target.elts, value.elts, strict=False) if is_plain else ()
        elif isinstance(value, ast.IfExp):
            pairs += [(target, value.body), (target, value.orelse)]
        elif isinstance(value, ast.Call):
            name, made_by = last_name(target), last_name(value.func)
            if name is not None and made_by is not None:
                yield name, made_by


def has_calls_of(index: Index, name: str) -> bool:
    """Whether the file calls something of that name; what calls it does not count as read."""
    return index.sum_up(("calls", name), lambda: name in index.calls)


def means_module_function(index: Index, name: str, caller: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether `name`, read in `caller`, can only mean this function of the module."""
    if function.outer is not index.module or index.bound_names(index.module).count(name) != 1:
        return False
    outer: FunctionInfo | None = caller
    while outer is not None and outer is not index.module:
        if name in index.bound_names(outer):
            return False
        outer = outer.outer
    return True


def none_test(caller: FunctionInfo, func: ast.expr) -> bool | None:
    """Whether a callee is a function of the module that returns `x is None` (True) or `x is not None` (False)."""
    if not isinstance(func, ast.Name):
        return None
    index = caller.index
    found = index.note("none tests", lambda: index.reads.unheard(lambda: dict(_none_tests(index)))).get(func.id)
    if found is None:
        return None
    index.reads.mentions(func.id)
    function, asks_for_none = found
    return asks_for_none if means_module_function(index, func.id, caller, function) else None


def _none_tests(index: Index) -> Iterator[tuple[str, tuple[FunctionInfo, bool]]]:
    for function in index.all_functions:
        parameters = function.parameter_names
        if len(parameters) != 1 or len(function.body) != 1 or not isinstance(function.body[0], ast.Return):
            continue
        match function.body[0].value:
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot() as asked], [ast.Constant(None)]):
                if name == parameters[0] and not function.decorators:
                    yield function.name, (function, isinstance(asked, ast.Is))


def _is_inside(node: ast.expr, other: ast.expr) -> bool:
    """Whether an expression is the other one or a part of it, in one file."""
    first, last = (other.lineno, other.col_offset), (other.end_lineno or 0, other.end_col_offset or 0)
    return first <= (node.lineno, node.col_offset) < last
