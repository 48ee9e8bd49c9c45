"""One analyzed file: its text, its index, and the query results about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from torchperf_lint.model.frequency.entry_points import EntryPoints
from torchperf_lint.model.frequency.execution import ExecutionFrequency
from torchperf_lint.model.frequency.loops import Loops
from torchperf_lint.model.loaders.loader_flow import Loading
from torchperf_lint.model.project.dependencies import DependencyRecorder
from torchperf_lint.model.project.exports import Imported, exports_of
from torchperf_lint.model.project.query_cache import QueryCache
from torchperf_lint.model.syntax.code import Code
from torchperf_lint.model.values.inference import ValueInference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.project.dependencies import Memo, Node
    from torchperf_lint.model.project.exports import Exports
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.syntax.source import Source


_R = TypeVar("_R")


class LateImports:
    """The top-level names of a file that a single import binds to something of the project; each when it is asked."""

    def __init__(self, analyzed: AnalyzedFile) -> None:
        self._analyzed = analyzed
        self._known: Memo[str, str | None] = analyzed.recorder.memo()

    def get(self, name: str) -> str | None:
        """The dotted name that it imports, if it does."""
        return self._analyzed.recorder.kept(self._known, name, lambda: self._find(name))

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._analyzed.exports.meanings if name in self])

    def _find(self, name: str) -> str | None:
        index, program = self._analyzed.index, self._analyzed.program
        found = self._analyzed.exports.meanings.get(name)
        is_late = (
            program is not None
            and isinstance(found, Imported)
            and index.bound_names(index.module).count(name) == 1
            and name not in index.rebound_elsewhere
            and program.stands_in_file(found.ref, index)
        )
        return found.ref if is_late else None


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
        self._parts: dict[object, tuple[Any, Node]] = {}

    def inference(self) -> ValueInference:
        """The value inference of the file."""
        return self._made("inference", lambda: ValueInference(self))

    def _made(self, part: object, make: Callable[[], _R]) -> _R:
        """A part of the analyses, made when it is first asked for; who takes it depends on what it was made from."""
        known = self._parts.get(part)
        if known is None:
            known = self._parts[part] = self.recorder.followed(make)
        else:
            self.recorder.here.add(known[1])
        return known[0]  # type: ignore[no-any-return]

    def renew(self, source: Source) -> None:
        """The file has this text now, and its index is that of it."""
        self.source = source
        self.code.renew(source.text)
        self._parts.pop("exports", None)
        entry_points = self._parts.get("entry_points")
        if entry_points is not None:
            entry_points[0].renew()

    def forget(self, is_dropped: Callable[[Node], bool]) -> None:
        """Drop the analyses with such dependencies."""
        self._parts = {part: known for part, known in self._parts.items() if not is_dropped(known[1])}

    def take_apart(self) -> None:
        """Drop all results at once; no query is allowed afterwards. The garbage collector would take far longer."""
        for part, _ in self._parts.values():
            if isinstance(part, ValueInference):
                vars(part).clear()
        vars(self).clear()

    @property
    def exports(self) -> Exports:
        """The meanings of the names at the file's top level."""
        return self._made("exports", lambda: self.index.reads.unheard(lambda: exports_of(self.index)))

    @property
    def late_imports(self) -> LateImports:
        """Name -> dotted name that it imports from the project, for top-level names bound by a single import only."""
        return self._made("late_imports", lambda: LateImports(self))

    @property
    def loops(self) -> Loops:
        """The loops of the file."""
        return self._made("loops", lambda: Loops(self.inference(), self.hints.loader_names, self.recorder))

    @property
    def entry_points(self) -> EntryPoints:
        """Where hot execution may begin in the file."""
        return self._made("entry_points", self._make_entry_points)

    def _make_entry_points(self) -> EntryPoints:
        return EntryPoints(self.index, self.hints.hot_functions, self.hints.loader_names, self.recorder, self.program)

    @property
    def frequency(self) -> ExecutionFrequency:
        """How often the file's statements run."""
        return self._made("frequency", self._make_frequency)

    def _make_frequency(self) -> ExecutionFrequency:
        known = {} if self.program is None else self.program.reachability(self.index)
        return ExecutionFrequency(
            self.inference(),
            self.loops,
            self.entry_points,
            self.hints.hot_functions,
            self.recorder,
            known,
            self._guarded_calls,
        )

    @property
    def _guarded_calls(self) -> QueryCache:
        if self.program is not None:
            return self.program.guarded_calls
        return self._made("guarded_calls", lambda: QueryCache(self.recorder))

    @property
    def loading(self) -> Loading:
        """The data loaders of the file."""
        return self._made("loading", lambda: Loading(self.inference(), self.code, self.recorder))
