"""Methods that are looked up by name: `getattr(self, f"{stage}_step")(batch)`, `getattr(callback, event)(trainer)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, trees
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.names import dotted
from torchperf_lint.model.syntax.texts import rest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo, Index


_DISPLAYS = (ast.List, ast.Tuple, ast.Set)


class Lookup(NamedTuple):
    """A call of `getattr` that may give the method; `is_shown` says that literals show the name.

    Otherwise the file of the call writes the part that is not shown, as a string.
    """

    call: ast.Call
    function: FunctionInfo
    is_shown: bool


class Lookups:
    """The search for lookups of one method; `home` gives the inference of a file, for its callers by name."""

    def __init__(self, home: Callable[[Index], ValueQuestions], function: FunctionInfo) -> None:
        self._home = home
        self._function = function
        self._open: set[object] = set()  # the names and attributes whose bindings are being followed

    def found(self) -> Iterator[Lookup]:
        """The calls of `getattr` in the program whose name may be the method's."""
        function = self._function
        own = self._home(function.index)
        if not calling.may_be_looked_up(own, function):
            return
        program, files = own.program, [function.index]
        if program is not None:
            files = [file.index for file in program.looking_up(function.name, function.index)]
        for record in (record for index in files for record in index.calls.get("getattr", ())):
            if len(record.call.args) < 2 or not isinstance(record.call.func, ast.Name):
                continue
            name = record.call.args[1]
            is_name = self._may_be(name, record.function, function.name, bounds.MOST_CALLS_TO_TEXT)
            if is_name or (is_name is None and _is_written(name, function.name, record.function.index)):
                yield Lookup(record.call, record.function, bool(is_name))

    def _may_be(self, node: ast.expr, function: FunctionInfo, text: str, calls: int) -> bool | None:
        """Whether literals show that the expression is the text in some run; None if they do not tell."""
        if isinstance(node, ast.Constant):
            return bool(node.value == text)
        if isinstance(node, ast.IfExp):
            return _any(self._may_be(each, function, text, calls) for each in (node.body, node.orelse))
        if isinstance(node, (ast.Name, ast.Attribute)):
            question = (ast.dump(node), function, text)
            if question in self._open:
                return None
            self._open.add(question)
            try:
                if isinstance(node, ast.Name):
                    return self._bound_to(node.id, function, text, calls)
                stored = _stored(self._home(function.index), node, function)
                return _any(self._may_be(value, where, text, calls) for value, where in stored)
            finally:
                self._open.discard(question)
        inner = rest_of(node, text)
        if inner is None:
            return None
        return self._may_be(inner[0], function, inner[1], calls) if inner[1] else False

    def _bound_to(self, name: str, function: FunctionInfo, text: str, calls: int) -> bool | None:
        """The same for a name, by its bindings in the function and by the callers' arguments."""
        bound, walked = function.note(("looked up", name, function), lambda: _bindings(name, function))
        given = [(each, function) for each in bound]
        given += [found for each in walked for found in self._elements(each, function)]
        found = [self._may_be(each, where, text, calls) for each, where in given]
        if name in function.parameter_names:
            found += self._given(name, function, text, calls)
        return _any(found)

    def _elements(self, node: ast.expr, function: FunctionInfo) -> list[tuple[ast.expr, FunctionInfo]]:
        """The elements of a display, also of one that an attribute or a name stands for; else the expression itself."""
        found = [(node, function)]
        if isinstance(node, ast.Attribute):
            found = _stored(self._home(function.index), node, function) or found
        elif isinstance(node, ast.Name):
            where = function if node.id in function.bound_names else function.index.module
            found = [
                (each.value, where)
                for each in where.statements
                if isinstance(each, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
            ] or found
        if any(not isinstance(value, _DISPLAYS) for value, _ in found):
            return [(ast.Starred(node), function)]  # unknown
        return [(each, where) for value, where in found for each in value.elts]  # type: ignore[attr-defined]

    def _given(self, name: str, function: FunctionInfo, text: str, calls: int) -> Iterator[bool | None]:
        for record in calling.callers_by_name(self._home(function.index), function) if calls else ():
            node = given_for(function, record.call, name)
            if node is not None:
                yield self._may_be(node, record.function, text, calls - 1)


def _stored(
    inference: ValueQuestions, node: ast.Attribute, function: FunctionInfo
) -> list[tuple[ast.expr, FunctionInfo]]:
    """What statements of the class and its bases store in an attribute of `self`; nothing if one stores otherwise."""
    cls = trees.class_of_self(node.value, function)
    found = []
    for store in (
        () if cls is None else (each for c in inference.lineage(cls) for each in c.attributes.get(node.attr, ()))
    ):
        parent = trees.upside_down(store.function.index).parents.get(store.target)
        if not isinstance(parent, (ast.Assign, ast.AnnAssign)) or parent.value is None:
            return []
        found.append((parent.value, store.function))
    return found


def _bindings(name: str, function: FunctionInfo) -> tuple[list[ast.expr], list[ast.expr]]:
    """The expressions that the function assigns to the name, and those whose elements its loops give it."""
    bound, walked = [], []
    for node in function.nodes:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            bound.append(node.value)
        elif isinstance(node, (ast.For, ast.comprehension)) and dotted(node.target) == name:
            walked.append(node.iter)
    return bound, walked


def _is_written(name: ast.expr, text: str, index: Index) -> bool:
    """Whether the file writes the part of a composed name that is not shown as a string of its own."""
    inner = rest_of(name, text)
    return inner is not None and inner[1] in index.note("strings", lambda: _strings(index))


def _strings(index: Index) -> frozenset[str]:
    nodes = index.module.nodes
    return frozenset(each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _any(answers: Iterable[bool | None]) -> bool | None:
    """True if one is true; None if none is and one does not tell, or there is none."""
    found = list(answers)
    return True if True in found else None if None in found or not found else False
