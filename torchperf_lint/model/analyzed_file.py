"""One file as the model holds it: its text, its index, and the answers about it at each distance from the question."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.interfaces import FARTHEST
from torchperf_lint.model.frequency.entry_points import EntryPoints
from torchperf_lint.model.frequency.execution import ExecutionFrequency
from torchperf_lint.model.frequency.loops import Loops
from torchperf_lint.model.loaders.loader_flow import Loading
from torchperf_lint.model.project.dependencies import DependencyRecorder
from torchperf_lint.model.project.exports import Imported, exports_of
from torchperf_lint.model.syntax.code import Code
from torchperf_lint.model.values.inference import ValueInference

if TYPE_CHECKING:
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.project.exports import Exports
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.syntax.source import Source


class AnalyzedFile:
    """Nothing is computed before it is asked for."""

    def __init__(self, source: Source, index: Index, hints: Hints, program: ProjectQuestions | None = None) -> None:
        """`index` is that of `source.parse()`; `program` is the project that the file belongs to, if there is one."""
        self.source = source
        self.hints = hints
        self.program = program
        self.recorder = DependencyRecorder() if program is None else program.recorder
        self.index = index
        self.code = Code(index, source.text)
        self._inferences: dict[int, ValueInference] = {}

    def inference(self, level: int = FARTHEST) -> ValueInference:
        """The values of the file, with what can be learnt of them `level` files and attributes away."""
        known = self._inferences.get(level)
        if known is None:
            known = self._inferences[level] = ValueInference(self, level)
        return known

    def take_apart(self) -> None:
        """Let go of all answers at once; nothing may be asked after that. The collector needs far longer for it."""
        for inference in self._inferences.values():
            vars(inference).clear()
        vars(self).clear()

    @functools.cached_property
    def exports(self) -> Exports:
        """What the names at its top level stand for."""
        return exports_of(self.index)

    @functools.cached_property
    def late_imports(self) -> dict[str, str]:
        """Name -> what it imports from the project, for the names that its top level binds by one import alone."""
        if self.program is None:
            return {}
        bound = Counter(self.index.bound_names(self.index.module))
        return {
            name: found.ref
            for name, found in self.exports.meanings.items()
            if isinstance(found, Imported) and bound[name] == 1 and name not in self.index.rebound_elsewhere
            if self.program.stands_in_file(found.ref, self.index)
        }

    @functools.cached_property
    def loops(self) -> Loops:
        """Its loops."""
        return Loops(self.inference(), self.hints.loader_names, self.recorder)

    @functools.cached_property
    def entry_points(self) -> EntryPoints:
        """Where heat may begin in it."""
        return EntryPoints(self.index, self.hints.hot_functions, self.hints.loader_names, self.recorder, self.program)

    @functools.cached_property
    def frequency(self) -> ExecutionFrequency:
        """What runs in every step."""
        known = {} if self.program is None else self.program.reachability(self.index, from_afar=False)
        return ExecutionFrequency(
            self.inference(), self.loops, self.entry_points, self.hints.hot_functions, self.recorder, known
        )

    @functools.cached_property
    def frequency_from_afar(self) -> ExecutionFrequency:
        """The same as another file asks for it: from what can be learnt of values nearby."""
        inference = self.inference(FARTHEST - 1)
        loops = Loops(inference, self.hints.loader_names, self.recorder)
        known = {} if self.program is None else self.program.reachability(self.index, from_afar=True)
        return ExecutionFrequency(inference, loops, self.entry_points, self.hints.hot_functions, self.recorder, known)

    @functools.cached_property
    def loading(self) -> Loading:
        """Its loaders."""
        return Loading(self.inference(), self.code, self.recorder)
