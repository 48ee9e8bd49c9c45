"""Calls that no call expression shows: properties that are read, objects in `with` statements, iterators in loops."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, trees
from torchperf_lint.model.domain.values import Kind, Registry
from torchperf_lint.model.syntax.call_sites import ImplicitCall
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.syntax.iterables import walked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Index

_PROPERTIES = frozenset({"property", "cached_property"})
_WITH = {"__enter__": ast.With, "__exit__": ast.With, "__aenter__": ast.AsyncWith, "__aexit__": ast.AsyncWith}
_ENTERING = {ast.With: "enter_context", ast.AsyncWith: "enter_async_context"}
_NEXT = {"__next__": ast.For, "__anext__": ast.AsyncFor}
_CALLS_NEXT = {ast.For: "next", ast.AsyncFor: "anext"}
_ITER = {ast.For: "__iter__", ast.AsyncFor: "__aiter__"}
_GENERATES = {name: kind for kind, name in _ITER.items()}
_ITERATORS = ("Iterator", "Generator")

Uses = dict["FunctionInfo | ClassInfo", list[ImplicitCall]]
"""The uses that run a function; and for a class, those of `self` in its methods, which may mean an override."""


def is_property(function: FunctionInfo) -> bool:
    """Whether the method is the getter of a property."""
    return function.cls is not None and any(last_name(each) in _PROPERTIES for each in function.decorators)


def may_run_implicitly(function: FunctionInfo) -> bool:
    """Whether the function is a method that may run where nothing calls it, by its name and decorators."""
    return function.cls is not None and (function.name in _WITH or function.name in _NEXT or is_property(function))


def implicit_calls(inference: ValueQuestions, function: FunctionInfo) -> list[ImplicitCall]:
    """The expressions that run the function without calling it."""
    return _uses(inference, function) if may_run_implicitly(function) else []


def iterations(inference: ValueQuestions, function: FunctionInfo) -> list[ImplicitCall]:
    """The loops over objects whose `__iter__` is the function, a generator; each use has the loop as its statement."""
    is_iter = function.cls is not None and function.name in _GENERATES and function.is_generator
    return _uses(inference, function) if is_iter else []


def _uses(inference: ValueQuestions, function: FunctionInfo) -> list[ImplicitCall]:
    assert function.cls is not None
    bases = inference.lineage(function.cls)[1:]
    found: list[ImplicitCall] = []
    for index in _files(inference, function):
        if is_property(function) and not _mentions(inference, index, f".{function.name}"):
            continue
        uses = inference.home(index).implicit_uses(function.name, is_property(function))
        found += uses.get(function, ())
        found += (_by_override(inference, use, base, function) for base in bases for use in uses.get(base, ()))
    return found


def _by_override(inference: ValueQuestions, use: ImplicitCall, base: ClassInfo, function: FunctionInfo) -> ImplicitCall:
    """The use of `self` in a base's method; it is not proven if the base has such a method itself."""
    meant = inference.method(base, function.name)
    is_free = meant is None or calling.is_overridden_by(inference, meant, function)
    return use._replace(overridden=None if is_free else meant)


def says(function: FunctionInfo, use: ImplicitCall) -> str:
    """What a finding says of such an expression."""
    assert function.cls is not None
    meant = use.overridden
    if meant is not None and meant.cls is not None:
        verb = "reads" if is_property(function) else "runs"
        start = f"no proof that this {verb} `{function.cls.name}.{function.name}`, but"
        return f"{start} it overrides `{meant.cls.name}.{meant.name}`, which this {verb}"
    if is_property(function):
        return f"the property `{function.name}` is read here in every step"
    if function.name in _NEXT:
        return f"`{function.cls.name}` is iterated over here in every step"
    return f"`with` runs `{function.cls.name}.{function.name}` here in every step"


def uses_in_file(inference: ValueQuestions, name: str, is_property: bool) -> Uses:
    """The expressions of one file that run a method of that name, by the method: one table for all classes."""
    found: Uses = {}
    for use, node, is_loop in _candidates(inference.index, name, is_property):
        own = trees.class_of_self(node, use.function)
        classes = [own] if own is not None else _classes_of(inference, node, use.function)
        for cls in classes:
            iterates_itself = not is_loop or _iterates_itself(inference, cls, _ITER[_NEXT[name]])
            for run in [cls] if iterates_itself else _iterators_of(inference, cls, _ITER[_NEXT[name]]):
                method = inference.method(run, name)
                if method is not None:
                    found.setdefault(method, []).append(use)
            if own is not None and iterates_itself:
                found.setdefault(own, []).append(use)
    return found


def _files(inference: ValueQuestions, function: FunctionInfo) -> list[Index]:
    """The files of the class, of its bases and subclasses, and those that import one of these; none beyond the bound.

    An object may be used where nothing names its class; such uses are not found.
    """
    cls, program = function.cls, inference.program
    assert cls is not None
    if program is None:
        return [cls.index]
    family = [cls, *program.heirs(cls)]
    if function.name in _NEXT:
        family += _given_by_iter(cls, _ITER[_NEXT[function.name]])
    found = dict.fromkeys(each.index for each in (*inference.lineage(cls), *family))
    for each in family:
        found.update((file.index, None) for file in program.naming_class(each))
        if len(found) > bounds.MOST_FILES:
            return []
    return list(found)


def _mentions(inference: ValueQuestions, index: Index, text: str) -> bool:
    """Whether the text of the file contains this one: its tree need not be turned upside down otherwise."""
    if inference.program is None:
        return True
    index.reads.asks("contains", text)
    return text in inference.program.file_of(index).source.text


def _candidates(index: Index, name: str, is_property: bool) -> Iterator[tuple[ImplicitCall, ast.expr, bool]]:
    """The expressions of a file that may run such a method, each with the one that may be the object.

    The last is true for loops, which run the `__next__` of what the object's `__iter__` returns.
    """
    if is_property:
        tree = trees.upside_down(index)
        for node in tree.attributes.get(name, ()):
            statement = tree.statement_of(node)
            if statement in index.places:
                yield ImplicitCall(node, statement, trees.owner_of(node, index)), node.value, False
    elif name in _NEXT:
        kind = _NEXT[name]
        for loop, owner in index.loops:
            if not isinstance(loop, ast.While) and isinstance(loop, kind):
                yield ImplicitCall(loop.iter, loop.body[0], owner), walked(loop.iter), True
        yield from _first_arguments(index, _CALLS_NEXT[kind])
    elif name in _GENERATES:
        for loop, owner in index.loops:
            if isinstance(loop, (ast.For, ast.AsyncFor)) and isinstance(loop, _GENERATES[name]):
                yield ImplicitCall(loop.iter, loop, owner), walked(loop.iter), False
    else:
        for statement, owner in _withs(index):
            if isinstance(statement, _WITH[name]):
                for item in statement.items:
                    yield ImplicitCall(item.context_expr, statement, owner), item.context_expr, False
        yield from _first_arguments(index, _ENTERING[_WITH[name]])


def _first_arguments(index: Index, callee: str) -> Iterator[tuple[ImplicitCall, ast.expr, bool]]:
    for record in index.calls.get(callee, ()):
        for given in record.call.args[:1]:
            yield ImplicitCall(record.call, record.statement, record.function), given, False


def _withs(index: Index) -> list[tuple[ast.With | ast.AsyncWith, FunctionInfo]]:
    """The `with` statements of a file, each with the function around it."""
    index.reads.mentions("with")
    return index.note(
        "withs",
        lambda: index.reads.unheard(
            lambda: [
                (each, function)
                for function in index.functions
                for each in function.statements
                if isinstance(each, (ast.With, ast.AsyncWith))
            ]
        ),
    )


def _iterates_itself(inference: ValueQuestions, cls: ClassInfo, name: str) -> bool:
    """Whether the `__iter__` of the class returns the object itself, so that a loop runs its `__next__`."""
    method = inference.method(cls, name)
    if method is None:
        return any(ref.rpartition(".")[2].endswith(_ITERATORS) for ref in inference.library_bases(cls))
    returned = [each.value for each in method.statements if isinstance(each, ast.Return)]
    is_self = (isinstance(each, ast.Name) and each.id == method.self_name for each in returned)
    return bool(returned) and all(is_self) and not method.is_generator


def _iterators_of(inference: ValueQuestions, cls: ClassInfo, name: str) -> list[ClassInfo]:
    """The classes of the program whose objects the `__iter__` of the class returns."""
    method = inference.method(cls, name)
    if method is None or method.is_generator:
        return []
    home = inference.home(method.index)
    returned = [each.value for each in method.statements if isinstance(each, ast.Return) and each.value is not None]
    return [each for node in returned for each in _classes_of(home, node, method)]


def _given_by_iter(cls: ClassInfo, name: str) -> list[ClassInfo]:
    """The classes of the same file whose `__iter__` names the class: it may return an object of it."""
    found = []
    for each in cls.index.classes:
        method = each.methods.get(name)
        if method is not None and any(last_name(record.call.func) == cls.name for record in method.calls_made):
            found.append(each)
    return found


def _classes_of(inference: ValueQuestions, node: ast.expr, owner: FunctionInfo) -> list[ClassInfo]:
    """The classes of the object that the expression is, read in `owner`."""
    if isinstance(node, ast.Name) and node.id == owner.self_name:
        return []
    value = inference.frame_value(owner, node)
    if value.kind is Kind.CLASS:
        return []
    among = (each for each in value.among if not isinstance(each, Registry))
    return list(dict.fromkeys(each for each in (value.cls, *among) if each is not None))
