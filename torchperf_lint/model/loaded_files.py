"""The files of a project with their trees: loaded on demand, and dropped when they take too much memory."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from torchperf_lint.model import bounds
from torchperf_lint.model.project.dependencies import DependencyRecorder, Memo
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.model.project.inquiry import Inquiry
from torchperf_lint.model.project.query_cache import QueryCache
from torchperf_lint.model.project.symbol_index import SymbolIndex
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.identity import digest_of, key_of
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.analyzed_file import AnalyzedFile
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.frequency.may_reach import Reachability
    from torchperf_lint.model.project.exports import Meaning
    from torchperf_lint.model.project.parts import Parts
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index

_Place = tuple[str, int, str]
"""A function by its file, row and name: identifies it as long as no file changes."""


class LoadedFiles(abc.ABC):
    """The files of a project; `read` gives a file's bytes and may raise OSError.

    Files are keyed by absolute path, with slashes. `shown` turns a key into the path that the user sees, `place_of`
    turns that back into the key. `room` is how many bytes of source may stay parsed where memory is ample, for
    `MOST_BYTES_LOADED`.
    """

    def __init__(
        self,
        facts: Mapping[str, FileSymbols],
        root: str,
        hints: Hints,
        read: Callable[[str], bytes],
        shown: Callable[[str], str] = str,
        place_of: Callable[[str], str] = key_of,
        room: int = 0,
    ) -> None:
        self._found = facts
        self._facts = dict(facts)  # except for files that were opened with other content
        self._root = root
        self._hints = hints
        self._read = read
        self._shown = shown
        self._place_of = place_of
        self._room = room
        self._symbol_index = SymbolIndex(self._facts, root)
        self.recorder = DependencyRecorder(self._parts)
        self._known_parts: dict[str, Parts | None] = {}
        self._indexed: dict[str, tuple[Source, Index]] = {}
        self._loaded = 0
        self._shares_trees = False
        self._follows = False  # whether files that are opened will change
        self._last_used: dict[str, int] = {}  # file -> the number of the last query that loaded it
        self._uses = 0
        self._forget()
        self._forget_what_lasts()

    def forget(self) -> None:
        """Clear all caches; the trees stay."""
        for analyzed in filter(None, self._analyzed_files.values()):
            analyzed.take_apart()
        self._forget()
        self._forget_what_lasts()

    def _forget(self) -> None:
        """Clear the caches that refer to trees. The trees themselves depend on no other file, and stay."""
        self._analyzed_files: dict[str, AnalyzedFile | None] = {}
        self._by_index: dict[Index, tuple[str, AnalyzedFile]] = {}
        # Each result is stored with its dependencies.
        self._meanings: Memo[tuple[str, str], Meaning | None] = self.recorder.memo()
        self._calls: Memo[FunctionInfo, list[CallRecord]] = self.recorder.memo()
        self._heirs: Memo[ClassInfo, list[ClassInfo]] = self.recorder.memo()
        self._some_calls: Memo[tuple[FunctionInfo, int], list[CallRecord]] = self.recorder.memo()
        self.guarded_calls = QueryCache(self.recorder)
        self.inquiry = Inquiry()

    def _forget_what_lasts(self) -> None:
        """Clear the caches that refer to no tree, which stay when trees are dropped."""
        # Each result is stored with its dependencies.
        self._files: Memo[_Place, list[str]] = Memo()
        self._handing: Memo[_Place, list[str]] = Memo()
        self._reachability: dict[str, Reachability] = {}

    def _ask(self, key: str, question: str, *texts: str) -> Any:
        """Query the symbol index for the file `key`. Every such query goes through here, so that it is recorded."""
        self.recorder.asked((question, *texts))
        return getattr(self._symbol_index, question)(*texts)

    def _key(self, index: Index) -> str:
        return self._by_index[index][0]

    def _function_key(self, function: FunctionInfo) -> _Place:
        return self._key(function.index), *function.place

    # -- files -----------------------------------------------------------------------------------------------------

    def drop_unused_trees(self) -> None:
        """Drop the least recently used trees if they exceed the memory bound; to be called between files.

        All results that depend on a dropped file go with it, since they may refer to its tree. The others stay.
        """
        most = max(bounds.MOST_BYTES_LOADED, self._room)
        if self._loaded <= most or self._shares_trees:
            return
        if self.recorder.keeps:
            self.recorder.settle()
        dropped: list[str] = []
        for key in sorted(self._indexed, key=lambda key: self._last_used.get(key, 0)):
            if self._loaded <= most * 3 // 4:
                break
            dropped.append(key)
            analyzed, index = self._analyzed_files.pop(key, None), self._indexed[key][1]
            if analyzed is not None:
                del self._by_index[index]
                analyzed.take_apart()
            index.take_apart()
            self._drop(key)
        self.recorder.forget(dropped)

    def open(self, path: str, data: bytes, source: Source) -> AnalyzedFile:
        """The file at `path` with this content; it replaces any other content known for the file.

        Raises Unreadable where it cannot be parsed.
        """
        key = self._place_of(path)
        known = self._facts.get(key)
        if known is None or known.digest != digest_of(data):
            self._set_symbols(key, symbols_of(data))
        analyzed = self._analyzed_files.get(key)
        if analyzed is None or analyzed.source.utf8 != source.utf8:
            held = self._indexed.get(key)
            if held is None or held[0].utf8 != source.utf8:
                held = source, index_of(source.parse(), source.path)
            held[1].path = source.path
            analyzed = self._keep(key, *held)
        return analyzed

    def put(self, contents: Mapping[str, bytes], restored: Iterable[str]) -> None:
        """Files have these contents from now on, by path, and others are restored to the project's own.

        The function that reads files has to give the same.
        """
        symbols = {key: self._found.get(key) for key in map(self._place_of, restored)}
        for path, data in contents.items():
            key = self._place_of(path)
            known = self._facts.get(key)
            symbols[key] = known if known is not None and known.digest == digest_of(data) else symbols_of(data)
        changed = {key: each for key, each in symbols.items() if self._facts.get(key) != each}
        for key, each in changed.items():
            self._facts.pop(key, None)
            if each is not None:
                self._facts[key] = each
            self._drop(key)
        if changed:
            self._symbol_index = SymbolIndex(self._facts, self._root)
            self.recorder.certain = False
            self.forget()

    def close(self, path: str) -> None:
        """Restore the project's own content of a file that was opened with another one."""
        key = self._place_of(path)
        if self._facts.get(key) != self._found.get(key):
            self._set_symbols(key, self._found.get(key))

    def _set_symbols(self, key: str, facts: FileSymbols | None) -> None:
        """Replace the symbols of a file (None: the file does not exist), and invalidate all results."""
        before = self._facts.get(key)
        if facts is None:
            self._facts.pop(key, None)
        else:
            self._facts[key] = facts
        if facts is None or before is None or facts._replace(digest="") != before._replace(digest=""):
            self._symbol_index = SymbolIndex(self._facts, self._root)
        self.recorder.certain = False
        self._drop(key)
        self._forget()
        self._forget_what_lasts()

    def _drop(self, key: str) -> None:
        self._known_parts.pop(key, None)
        if key in self._indexed:
            self._loaded -= len(self._indexed.pop(key)[0].utf8)

    def _keep(self, key: str, source: Source, index: Index) -> AnalyzedFile:
        self._drop(key)
        self._indexed[key] = source, index
        index.tell(self.recorder.reads(key))
        self._loaded += len(source.utf8)
        analyzed = self._analyzed_files[key] = self._analyze(source, index)
        self._by_index[index] = key, analyzed
        return analyzed

    def _note_use(self, key: str) -> None:
        self._uses += 1
        self._last_used[key] = self._uses

    def analyzed(self, key: str) -> AnalyzedFile | None:
        """The file, read and indexed; None if it cannot be read or parsed, or exceeds `MOST_BYTES`."""
        self._touch(key)
        self._note_use(key)
        if key not in self._analyzed_files:
            self._analyzed_files[key] = None
            known = self._indexed.get(key)
            try:
                if known is None:
                    data = self._read(key)
                    if digest_of(data) != self._facts[key].digest:
                        self.recorder.certain = False  # the file has changed since the project was scanned
                    source = Source(self._shown(key), data)
                    if len(source.utf8) > bounds.MOST_BYTES:
                        return None
                    known = source, index_of(source.parse(), source.path)
                known[1].path = self._shown(key)  # it may have been opened under another name
                self._keep(key, *known)
            except Unreadable:
                pass
            except (OSError, RecursionError):
                self.recorder.certain = False
        analyzed = self._analyzed_files[key]
        if analyzed is None:
            self.recorder.asked(("file whole", key))  # any change may make it one that can be read
        return (
            None if analyzed is None or len(analyzed.source.utf8) > bounds.MOST_BYTES else analyzed
        )  # `open` takes files of any size

    def file_of(self, index: Index) -> AnalyzedFile:
        """The file that an index belongs to."""
        key, analyzed = self._by_index[index]
        self._touch(key)
        self._note_use(key)
        return analyzed

    def _touch(self, key: str) -> None:
        """Record that the file's tree may be used; what is read of it is recorded by its index."""
        self.recorder.asked(("file order", key))

    def _parts(self, key: str) -> Parts | None:
        """The parts of a file's text; None where it cannot be parsed."""
        if key not in self._known_parts:
            from torchperf_lint.model.facts import parts_of  # the whole model

            self._known_parts[key] = None
            held = self._indexed.get(key)
            try:
                source = Source(self._shown(key), self._read(key)) if held is None else held[0]
                if len(source.utf8) <= bounds.MOST_BYTES:
                    self._known_parts[key] = parts_of(source, self._hints, None if held is None else held[1])
            except Unreadable:
                pass
            except (OSError, RecursionError):
                self.recorder.certain = False
        return self._known_parts[key]

    def inference(self, index: Index) -> ValueQuestions:
        """The values of the file that an index belongs to."""
        return self.file_of(index).inference()

    def reachability(self, index: Index) -> Reachability:
        """A table of which functions of the file may be reached from a step. Its user fills it; it outlasts trees."""
        return self._reachability.setdefault(self._key(index), {})

    @abc.abstractmethod
    def _analyze(self, source: Source, index: Index) -> AnalyzedFile:
        """Make the analyses of one file of the project."""
