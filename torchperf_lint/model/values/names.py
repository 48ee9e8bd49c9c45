"""Free names of functions: definitions, imports and variables of any file."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, located
from torchperf_lint.model.project.exports import Imported, LibraryName, ModuleName, Variable
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.model.values.name_heuristics import conventional

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.domain.interfaces import FileQuestions, ValueQuestions
    from torchperf_lint.model.domain.naming import LateImports
    from torchperf_lint.model.project.dependencies import Memo


class Binding(NamedTuple):
    """Whether a module may bind a name, and the only statement that does, if that defines or imports it."""

    may_be: bool
    definition: ast.stmt | None


class Names:
    """Name lookup in one file, as its inference sees it."""

    def __init__(self, inference: ValueQuestions, analyzed: FileQuestions) -> None:
        self._inference = inference
        self._index, self._program = inference.index, inference.program
        self._analyzed = analyzed
        self._recorder = analyzed.recorder
        self._imports: Memo[str, Value | Variable] = analyzed.recorder.memo()
        self._bindings: Memo[str, Binding] = analyzed.recorder.memo()
        self._late: Memo[str, str | None] = analyzed.recorder.memo()

    def binding(self, name: str) -> Binding:
        """What binds the module's name."""
        return self._recorder.kept(self._bindings, name, lambda: self._binding(name))

    def _binding(self, name: str) -> Binding:
        slices = slices_of(self._index.module)
        return Binding(slices.may_bind(name), slices.definition(name))

    def defined(self, name: str, definition: ast.stmt) -> Value | None:
        """The module's value of a name that one definition or import binds; None if it is looked up late."""
        if not isinstance(definition, (ast.Import, ast.ImportFrom)):
            info = self._index.info_of[definition]
            return Value(Kind.CLASS, cls=info) if isinstance(info, ClassInfo) else Value(Kind.FUNCTION, function=info)
        found = self._inference.exports.meanings[name]
        assert isinstance(found, Imported)
        return None if name in self.late_imports else self.imported(found.ref)

    def imported(self, ref: str) -> Value:
        """The value of an imported name: `ref` is dotted, with leading dots as written."""
        known = self._recorder.kept(self._imports, ref, lambda: self._looked_up(ref))
        return self._held_by(known) if isinstance(known, Variable) else known

    def _looked_up(self, ref: str) -> Value | Variable:
        meaning = None if self._program is None else self._program.meaning(ref, self._index)
        if isinstance(meaning, FunctionInfo):
            return Value(Kind.FUNCTION, function=meaning)
        if isinstance(meaning, ClassInfo):
            return Value(Kind.CLASS, cls=meaning)
        if isinstance(meaning, (ModuleName, LibraryName)):
            return Value(Kind.LIBRARY, ref=frameworks.canonical(meaning.name))
        if isinstance(meaning, Variable):
            return meaning
        if ref in torch_api.DTYPES:
            return Value(Kind.DTYPE, dtype=torch_api.DTYPES[ref])
        return Value(Kind.LIBRARY, ref=frameworks.canonical(ref))

    def _held_by(self, variable: Variable) -> Value:
        """The value of another file's variable after that file has run."""
        value = self._inference.home(variable.home).at_end(variable.home.module, variable.name) or UNKNOWN
        return conventional(variable.name, located(value, variable.home.path))

    def free(self, frame: Frame, name: str) -> Value | None:
        """A name that the frame's function does not bind: from the enclosing functions, then the module."""
        if name in self._index.rebound_elsewhere:
            return conventional(name, UNKNOWN)
        outer = frame.function.outer
        while outer is not None:
            value = self._inference.at_end(outer, name)
            if value is not None:
                return value
            outer = outer.outer
        return self.late(name)

    @property
    def late_imports(self) -> LateImports:
        """The module's imports that are resolved when a name is read, because another file may have to be parsed."""
        return self._analyzed.late_imports

    def late(self, name: str) -> Value | None:
        """The value of a late import, or of one by `*` from the project; None if none binds the name."""
        ref = self._recorder.kept(self._late, name, lambda: self._late_ref(name))
        return None if ref is None else self.imported(ref)

    def _late_ref(self, name: str) -> str | None:
        ref = self.late_imports.get(name)
        return ref if ref is not None or self._program is None else self._program.starred(name, self._index)

    def at_top(self, name: str) -> Value:
        """The module's value of the name after the module has run."""
        value = self._inference.at_end(self._index.module, name) or self.late(name)
        return UNKNOWN if value is None else value

    def all_at_top(self) -> list[Value]:
        """All values bound in the module, without those imported by `*`."""
        late = [value for value in map(self.late, self.late_imports) if value is not None]
        return [*self._inference.frame(self._index.module).env.values(), *late]
