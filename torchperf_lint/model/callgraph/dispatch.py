"""Methods that are looked up by name: `getattr(self, f"{stage}_step")(batch)`, `getattr(callback, event)(trainer)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.texts import rest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo, Index


_DISPLAYS = (ast.List, ast.Tuple, ast.Set)


class Lookup(NamedTuple):
    """A call of `getattr` that may give the method; `is_shown` says that literals show the name."""

    call: ast.Call
    function: FunctionInfo
    is_shown: bool


class Lookups:
    """The search for lookups of one method; `home` gives the inference of a file, for its callers by name."""

    def __init__(self, home: Callable[[Index], ValueQuestions], function: FunctionInfo) -> None:
        self._home = home
        self._function = function

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
            if is_name or (is_name is None and not isinstance(name, (ast.Name, ast.Attribute))):
                yield Lookup(record.call, record.function, bool(is_name))

    def _may_be(self, node: ast.expr, function: FunctionInfo, text: str, calls: int) -> bool | None:
        """Whether literals show that the expression is the text in some run; None if they do not tell."""
        if isinstance(node, ast.Constant):
            return bool(node.value == text)
        if isinstance(node, ast.IfExp):
            return _any(self._may_be(each, function, text, calls) for each in (node.body, node.orelse))
        if isinstance(node, ast.Name):
            return self._bound_to(node.id, function, text, calls)
        inner = rest_of(node, text)
        if inner is None:
            return None
        return self._may_be(inner[0], function, inner[1], calls) if inner[1] else False

    def _bound_to(self, name: str, function: FunctionInfo, text: str, calls: int) -> bool | None:
        """The same for a name, by its bindings in the function and by the callers' arguments."""
        given: list[ast.expr] = []
        for node in function.nodes:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                given.append(node.value)
            elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, _DISPLAYS):
                given += node.iter.elts if isinstance(node.target, ast.Name) and node.target.id == name else []
        found = [self._may_be(each, function, text, calls) for each in given]
        if name in function.parameter_names:
            found += self._given(name, function, text, calls)
        return _any(found)

    def _given(self, name: str, function: FunctionInfo, text: str, calls: int) -> Iterator[bool | None]:
        for record in calling.callers_by_name(self._home(function.index), function) if calls else ():
            node = given_for(function, record.call, name)
            if node is not None:
                yield self._may_be(node, record.function, text, calls - 1)


def _any(answers: Iterable[bool | None]) -> bool | None:
    """True if one is true; None if none is and one does not tell, or there is none."""
    found = list(answers)
    return True if True in found else None if None in found or not found else False
