"""Questions about values by Python's own tree: what an expression of a function is, what a class descends from.

A function of another file may be asked about as well; its values are then known a little less far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model.asking.code import CodeModel
from torchperf_lint.model.callgraph import calling, frameworks
from torchperf_lint.model.domain.values import Kind, Value
from torchperf_lint.model.frequency import numbers
from torchperf_lint.model.loaders.single_calls import all_sources

if TYPE_CHECKING:
    import ast
    from collections.abc import Mapping, Sequence

    from torchperf_lint.model.domain.contracts import Contract
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo


class ValueModel(CodeModel):
    """The part of the model that knows values, and the calls that lead to a function."""

    # -- expressions -----------------------------------------------------------------------------------------------

    def value_in(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression of the function; UNKNOWN if it cannot be inferred."""
        return self._inference.frame_value(function, node)

    def value_alone(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The same, whatever the function's callers pass."""
        return self._inference.seen_alone(function, node)

    def callee(self, record: CallRecord) -> Value:
        """The value of what a call calls: a library's function, one of the project, a method, a module, a class."""
        return self._inference.frame_value(record.function, record.call.func)

    def values_in(self, function: FunctionInfo, statement: ast.stmt) -> Mapping[ast.expr, Value]:
        """The values of a statement's expressions, without those of its nested statements."""
        return self._inference.values_of(function, statement)

    def value_at_top(self, name: str) -> Value:
        """The value of a name once the file has been imported."""
        return self._inference.names.at_top(name)

    def is_certain_number(self, function: FunctionInfo, node: ast.expr) -> bool:
        """Whether the expression is a Python number on every path: no parameter meant to be one, no NumPy scalar."""
        return numbers.is_certain(node, function, self._inference, self._frequency)

    def loaders_in(self, function: FunctionInfo, node: ast.expr) -> tuple[ast.Call, ...]:
        """The calls that built the loaders that the expression's value is, has or comes from."""
        return all_sources([self.value_in(function, node)])

    def loaders_returned(self, function: FunctionInfo) -> tuple[ast.Call, ...]:
        """The calls that built the loaders that the function returns."""
        return all_sources(self._inference.frame(function).returns)

    # -- classes ---------------------------------------------------------------------------------------------------

    def lineage(self, cls: ClassInfo) -> Sequence[ClassInfo]:
        """The class and its bases in the program, nearest first."""
        return self._inference.lineage(cls)

    def library_bases(self, cls: ClassInfo) -> Sequence[str]:
        """Qualified names of the library classes that it descends from."""
        return self._inference.library_bases(cls)

    def method(self, cls: ClassInfo, name: str) -> FunctionInfo | None:
        """The method of that name, looked up through the class and its bases in the program."""
        return self._inference.method(cls, name)

    def is_set_elsewhere(self, cls: ClassInfo, name: str) -> bool:
        """Whether a file other than the class's may set an attribute of that name, other than of `self`."""
        program = self._inference.program
        return program is not None and program.sets_elsewhere(name, cls.index)

    def makes_modules(self, cls: ClassInfo) -> bool:
        """Whether the class's objects are modules of torch."""
        return self._inference.instance(cls).kind is Kind.MODULE

    def is_lightning_module(self, cls: ClassInfo) -> bool:
        """Whether the class is a LightningModule."""
        return frameworks.is_lightning_module(self._inference, cls)

    # -- calls that lead to a function -----------------------------------------------------------------------------

    def callers(self, function: FunctionInfo) -> tuple[CallRecord, ...]:
        """The calls in the program that reach the function."""
        return self._inference.callers(function)

    def possible_callers(self, function: FunctionInfo) -> list[CallRecord]:
        """The calls in the program that could mean the function, by name or as a parameter; those of its file first."""
        return calling.possible_callers(self._inference, function)

    def given_away(self, function: FunctionInfo) -> list[CallRecord]:
        """The calls in its file, and in those of its class's bases, that get the function as an argument."""
        return calling.handed_over(self._inference, function)

    def may_be_value(self, function: FunctionInfo) -> bool:
        """Whether something may name the function without calling it, as a table of commands does."""
        return calling.may_be_value(self._inference, function)

    def contract(self, function: FunctionInfo) -> Contract | None:
        """The promise of the framework that calls the function; None if no framework calls it."""
        return self._inference.contract(function)
