"""Finds the rows of a function that may have made a profiled call: profiles name the function, not the row."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.profile.frames import built_in, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchperf_lint.profile.checkout import Body

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, *_COMPREHENSIONS)
_TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert, ast.BoolOp, ast.comprehension)


def _tests(node: ast.AST) -> bool:
    """Whether a node may test a truth value."""
    if isinstance(node, ast.Compare):
        return len(node.ops) > 1 or isinstance(node.ops[0], (ast.In, ast.NotIn))
    return isinstance(node, _TESTS) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def _indexes(node: ast.AST) -> bool:
    """Whether a node may use a tensor as an index."""
    return isinstance(node, ast.Subscript) and any(
        isinstance(each, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List)) for each in ast.walk(node.slice)
    )


_SYNTAX: dict[str, Callable[[ast.AST], bool]] = {
    "__iter__": lambda node: isinstance(node, _LOOPS),
    "__next__": lambda node: isinstance(node, _LOOPS),
    "__enter__": lambda node: isinstance(node, ast.With),
    "__exit__": lambda node: isinstance(node, ast.With),
    "__getitem__": lambda node: isinstance(node, ast.Subscript),
    "__setitem__": lambda node: isinstance(node, ast.Subscript),
    "__contains__": lambda node: isinstance(node, ast.Compare),
    "__format__": lambda node: isinstance(node, ast.JoinedStr),
    "aten::is_nonzero": _tests,
    "aten::item": _indexes,
    "aten::index": _indexes,
    "aten::index_put_": _indexes,
    "aten::masked_fill_": _indexes,
}
"""Methods and operators that syntax calls, in addition to calls by name."""

_CALLS = {
    "__iter__": ("iter", "list", "tuple"),
    "__next__": ("next",),
    "__format__": ("format",),
    "aten::is_nonzero": ("bool",),
    "aten::item": ("float", "int", "complex", "range"),
}
"""Types and functions that call them without appearing in a profile."""

_WRAPPERS = frozenset({"wrapper", "inner", "_fn", "_use_grad", "decorate_context", "profile_hook_step"})
"""torch's wrapper functions, which pass a call on."""


def rows_of_call(body: Body, called: Sequence[str], operator: str) -> tuple[int, ...]:
    """The rows of a function that may make a call, in order; empty if unknown.

    `called` are the names of the frames inside the function's own, outermost first: the call and its nested calls.
    If empty, the function called `operator` directly.
    """
    name = _name_of(called) if called else operator
    if not name:
        return ()
    found = {row for node in _own(body.node) if (row := _row(node, name))}
    return tuple(sorted(found))


def _name_of(called: Sequence[str]) -> str:
    """The name that the source calls; empty if unknown."""
    for each in called:
        native = built_in(each)
        if native is not None:
            return native
        frame = parse(each)
        if frame is None:
            return ""
        function = frame.function.rpartition(".")[2]
        if not (frame.is_torch and function in _WRAPPERS):
            return "" if function == "__init__" else function  # the source calls a class, which is unnamed here
    return ""


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run in a function's own frame, including those of all comprehensions."""
    body = getattr(node, "body", node)
    waiting = list(body) if isinstance(body, list) else [body]
    while waiting:
        each = waiting.pop()
        yield each
        if not isinstance(each, _SCOPES):
            waiting += ast.iter_child_nodes(each)


def _row(node: ast.AST, name: str) -> int:
    """The row at which a node may call this name; 0 if it does not."""
    if isinstance(node, ast.Call):
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called == name or called in _CALLS.get(name, ()):
            return function.end_lineno or function.lineno
    by_syntax = _SYNTAX.get(name)
    if by_syntax is None or not by_syntax(node):
        return 0
    return node.target.lineno if isinstance(node, ast.comprehension) else int(getattr(node, "lineno", 0))
