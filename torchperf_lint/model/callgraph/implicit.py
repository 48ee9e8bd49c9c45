"""Calls that no call expression shows: properties that are read, objects in `with` statements, iterators in loops."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import trees
from torchperf_lint.model.domain.values import Kind, Registry
from torchperf_lint.model.syntax.index import ImplicitCall, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo, Index

_PROPERTIES = frozenset({"property", "cached_property"})
_OF_WITH = frozenset({"__enter__", "__exit__", "__aenter__", "__aexit__"})
_ENTERING = ("enter_context", "enter_async_context")
_NEXT = "__next__"


def is_property(function: FunctionInfo) -> bool:
    """Whether the method is the getter of a property."""
    return function.cls is not None and any(last_name(each) in _PROPERTIES for each in function.decorators)


def may_run_implicitly(function: FunctionInfo) -> bool:
    """Whether the function is a method that may run where nothing calls it, by its name and decorators."""
    return function.cls is not None and (function.name in _OF_WITH or function.name == _NEXT or is_property(function))


def implicit_calls(inference: ValueQuestions, function: FunctionInfo) -> list[ImplicitCall]:
    """The expressions that run the function without calling it."""
    if not may_run_implicitly(function):
        return []
    return [
        found
        for index in _files(inference, function)
        for found, node in _candidates(inference, function, index)
        if _is_of(inference, node, found.function, function)
    ]


def says(function: FunctionInfo) -> str:
    """What a finding says of such an expression."""
    assert function.cls is not None
    if is_property(function):
        return f"the property `{function.name}` is read here in every step"
    if function.name == _NEXT:
        return f"`{function.cls.name}` is iterated over here in every step"
    return f"`with` runs `{function.cls.name}.{function.name}` here in every step"


def _files(inference: ValueQuestions, function: FunctionInfo) -> list[Index]:
    """The files of the class, of its bases and subclasses, and those that import one of these; none beyond the bound.

    An object may be used where nothing names its class; such uses are not found.
    """
    cls, program = function.cls, inference.program
    assert cls is not None
    if program is None:
        return [cls.index]
    family = [cls, *program.heirs(cls)]
    found = dict.fromkeys(each.index for each in (*inference.lineage(cls), *family))
    for each in family:
        found.update((file.index, None) for file in program.naming_class(each))
        if len(found) > bounds.MOST_FILES:
            return []
    return list(found)


def _mentions(inference: ValueQuestions, index: Index, text: str) -> bool:
    """Whether the text of the file contains this one: its tree need not be turned upside down otherwise."""
    return inference.program is None or text in inference.program.file_of(index).source.text


def _candidates(
    inference: ValueQuestions, function: FunctionInfo, index: Index
) -> Iterator[tuple[ImplicitCall, ast.expr]]:
    """The expressions of a file that may run the function, each with the one that may be the object."""
    if is_property(function):
        if not _mentions(inference, index, f".{function.name}"):
            return
        tree = trees.upside_down(index)
        for node in tree.attributes.get(function.name, ()):
            statement = tree.statement_of(node)
            if statement in index.places:
                yield ImplicitCall(node, statement, trees.owner_of(node, index)), node.value
    elif function.name == _NEXT:
        for loop, owner in index.loops:
            if not isinstance(loop, ast.While):
                yield ImplicitCall(loop.iter, loop.body[0], owner), _iterated(loop.iter)
        for record in index.calls.get("next", ()):
            for given in record.call.args[:1]:
                yield ImplicitCall(record.call, record.statement, record.function), given
    else:
        for statement, owner in _withs(index):
            for item in statement.items:
                yield ImplicitCall(item.context_expr, statement, owner), item.context_expr
        for name in _ENTERING:
            for record in index.calls.get(name, ()):
                for given in record.call.args[:1]:
                    yield ImplicitCall(record.call, record.statement, record.function), given


def _iterated(node: ast.expr) -> ast.expr:
    """`x` of `enumerate(x)`."""
    is_wrapped = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "enumerate"
    return node.args[0] if is_wrapped and node.args else node  # type: ignore[attr-defined]


def _withs(index: Index) -> list[tuple[ast.With | ast.AsyncWith, FunctionInfo]]:
    """The `with` statements of a file, each with the function around it."""
    return index.note(
        "withs",
        lambda: [
            (each, function)
            for function in index.functions
            for each in function.statements
            if isinstance(each, (ast.With, ast.AsyncWith))
        ],
    )


def _is_of(inference: ValueQuestions, node: ast.expr, owner: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether the expression, read in `owner`, is an object whose method of that name is the function."""
    assert function.cls is not None
    own = trees.class_of_self(node, owner)
    if own is not None:
        return inference.method(own, function.name) is function or own in inference.lineage(function.cls)
    there = inference.callee_inference(owner.index)
    if there is None or (isinstance(node, ast.Name) and node.id == owner.self_name):
        return False
    value = there.frame_value(owner, node)
    if value.kind is Kind.CLASS:
        return False
    classes = (value.cls, *(each for each in value.among if not isinstance(each, Registry)))
    return any(inference.method(cls, function.name) is function for cls in classes if cls is not None)
