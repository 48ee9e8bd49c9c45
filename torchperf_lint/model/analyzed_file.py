"""One analyzed file: its text, its index, and the query results about it at each depth budget."""

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
    """The analyses of one file. Each is created on first use."""

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
        """The value inference of the file that may look `level` more files and attributes of objects away."""
        known = self._inferences.get(level)
        if known is None:
            known = self._inferences[level] = ValueInference(self, level)
        return known

    def take_apart(self) -> None:
        """Drop all results at once; no query is allowed afterwards. The garbage collector would take far longer."""
        for inference in self._inferences.values():
            vars(inference).clear()
        vars(self).clear()

    @functools.cached_property
    def exports(self) -> Exports:
        """The meanings of the names at the file's top level."""
        return exports_of(self.index)

    @functools.cached_property
    def late_imports(self) -> dict[str, str]:
        """Name -> dotted name that it imports from the project, for top-level names bound by a single import only."""
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
        """The loops of the file."""
        return Loops(self.inference(), self.hints.loader_names, self.recorder)

    @functools.cached_property
    def entry_points(self) -> EntryPoints:
        """Where hot execution may begin in the file."""
        return EntryPoints(self.index, self.hints.hot_functions, self.hints.loader_names, self.recorder, self.program)

    @functools.cached_property
    def frequency(self) -> ExecutionFrequency:
        """How often the file's statements run."""
        known = {} if self.program is None else self.program.reachability(self.index, from_afar=False)
        return ExecutionFrequency(
            self.inference(), self.loops, self.entry_points, self.hints.hot_functions, self.recorder, known
        )

    @functools.cached_property
    def frequency_from_afar(self) -> ExecutionFrequency:
        """The same for queries from other files, with one level less of value inference."""
        inference = self.inference(FARTHEST - 1)
        loops = Loops(inference, self.hints.loader_names, self.recorder)
        known = {} if self.program is None else self.program.reachability(self.index, from_afar=True)
        return ExecutionFrequency(inference, loops, self.entry_points, self.hints.hot_functions, self.recorder, known)

    @functools.cached_property
    def loading(self) -> Loading:
        """The data loaders of the file."""
        return Loading(self.inference(), self.code, self.recorder)
