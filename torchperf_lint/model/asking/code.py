"""Questions about the code of one file, before any value is inferred: its statements, functions, calls and names."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_lint.model.syntax import finding

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.domain.interfaces import FileQuestions, FrequencyQuestions, LoopQuestions, ValueQuestions
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index, Place
    from torchperf_lint.syntax.source import Source

_Answer = TypeVar("_Answer")


class CodeModel:
    """The part of the model that knows the code. What the other parts ask is private to them."""

    def __init__(self, analyzed: FileQuestions, target: Target) -> None:
        """`target` says which torch and torchmetrics the project runs on."""
        self.target = target
        self.source: Source = analyzed.source
        self._analyzed = analyzed
        self._index: Index = analyzed.index
        self._remembered: dict[object, Any] = {}

    @functools.cached_property
    def _inference(self) -> ValueQuestions:
        return self._analyzed.inference()

    @functools.cached_property
    def _loops(self) -> LoopQuestions:
        return self._analyzed.loops

    @functools.cached_property
    def _frequency(self) -> FrequencyQuestions:
        return self._analyzed.frequency

    def remember(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The result of a query that several rules make about the same file, memoized."""
        if question not in self._remembered:
            self._remembered[question] = answer()
        return self._remembered[question]  # type: ignore[no-any-return]

    @property
    def path(self) -> str:
        """The file's path as evidence shows it."""
        return self._index.path

    @property
    def code(self) -> Code:
        """The identifiers in the file's code: whether it calls, imports, assigns or passes something anywhere."""
        return self._analyzed.code

    # -- statements, functions, classes ----------------------------------------------------------------------------

    @property
    def statements(self) -> Collection[ast.stmt]:
        """All statements of the file, in source order."""
        statements: Collection[ast.stmt] = self._index.places.keys()
        return statements

    @property
    def statements_with_texts(self) -> list[ast.stmt]:
        """The statements that build a string by an f-string, by `%` or by `.format(...)`, in source order."""
        filled = dict.fromkeys(record.statement for record in self.calls_named("format"))
        return sorted({**self._index.texts, **filled}, key=lambda statement: statement.lineno)

    def place_of(self, statement: ast.stmt) -> Place:
        """Where a statement of the file stands: its function, what is around it, its block."""
        return self._index.places[statement]

    @property
    def all_loops(self) -> list[tuple[Loop, FunctionInfo]]:
        """The loops of the file, each with its function."""
        return self._index.loops

    def loops_in(self, function: FunctionInfo) -> list[Loop]:
        """The loops of a function of the file."""
        return [loop for loop, _ in finding.loops_in(function)]

    @property
    def top(self) -> FunctionInfo:
        """The file's top level, as the function that runs when the file is imported."""
        return self._index.module

    @property
    def functions(self) -> list[FunctionInfo]:
        """The functions and methods of the file, the top level first."""
        return self._index.functions

    @property
    def classes(self) -> list[ClassInfo]:
        """The classes of the file."""
        return self._index.classes

    def classes_with(self, name: str) -> list[ClassInfo]:
        """The classes of the file, to look for methods or attributes of this name."""
        return self._index.classes_with(name)

    def has(self, owner: FunctionInfo | ClassInfo) -> bool:
        """Whether the function or class is one of this file."""
        return owner.index is self._index

    # -- calls -----------------------------------------------------------------------------------------------------

    @property
    def called_names(self) -> Collection[str]:
        """The last names of all that the file calls: `step` of `optimizer.step()`."""
        names: Collection[str] = self._index.calls.keys()
        return names

    def calls_named(self, *names: str) -> list[CallRecord]:
        """The file's calls of these last names, or of names that it binds to something of these names."""
        return [record for name in names for record in self._index.calls_named(name)]

    @property
    def all_calls(self) -> list[CallRecord]:
        """All calls of the file, name by name."""
        return [record for records in self._index.calls.values() for record in records]

    def calls_given(self, name: str) -> list[CallRecord]:
        """The file's calls that get something of this last name as an argument."""
        found: list[CallRecord] = self._index.handed.get(name, [])
        return found

    def names_for(self, *names: str) -> frozenset[str]:
        """These names, and the other names that the file gives to what they mean."""
        return frozenset(names).union(*map(self._index.also_called, names))

    # -- names -----------------------------------------------------------------------------------------------------

    def bound_once(self, function: FunctionInfo, name: str) -> bool:
        """Whether one statement of the function, and nothing else in the file, binds the name; a parameter counts."""
        return function.bound_names.count(name) == 1 and name not in function.index.rebound_elsewhere

    def may_be_rebound(self, name: str) -> bool:
        """Whether some function of the file declares the name global or nonlocal, and so may bind it from outside."""
        return name in self._index.rebound_elsewhere

    def bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """The expressions that plain assignments of the function bind the name to."""
        return self._frequency.bindings(function, name)

    def all_bindings(self, function: FunctionInfo, name: str, *, grows: bool = False) -> list[ast.expr]:
        """The same, if nothing else gives the name a value: no parameter, loop, import, other function; else empty.

        With `grows`, in-place additions (`x += y`) are allowed beside them.
        """
        if name in function.parameter_names or name in function.index.rebound_elsewhere:
            return []
        bound = self.bindings(function, name)
        stores = function.note(("stores", function), lambda: _stores(function))
        plain = stores.get(name, [0, 0])
        return bound if bound and len(bound) == plain[0] - (plain[1] if grows else 0) else []

    def only_binding(self, function: FunctionInfo, name: str) -> ast.expr | None:
        """The expression that the only statement to bind the name gives it; None for a parameter, a loop, an import."""
        bound = self.bindings(function, name)
        return bound[0] if len(bound) == 1 and self.bound_once(function, name) else None


def _stores(function: FunctionInfo) -> dict[str, list[int]]:
    """By name, how often the function stores it, and how often of these by an addition in place."""
    found: dict[str, list[int]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, [0, 0])[0] += 1
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, [0, 0])[1] += 1
    return found
