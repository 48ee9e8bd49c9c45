"""The project as one program: queries that span files, whose trees are read on demand.

File symbols (`project/file_symbols.py`) tell which files may hold an answer; the answer itself comes from the analyses
of those files. Queries of two files may ask each other; `project/query_cache.py` settles such cycles, so that the order
of files does not matter.
"""

from __future__ import annotations

import ast
import copy
import itertools
import posixpath
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import loading, topics
from torchperf_lint.model import bounds
from torchperf_lint.model.edited_files import EditedFiles
from torchperf_lint.model.project.exports import Imported, LibraryName, ModuleName, Variable
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.model.project.symbol_index import SymbolIndex
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.class_names import is_named_like
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.analyzed_file import AnalyzedFile
    from torchperf_lint.model.project.dependencies import Dependencies
    from torchperf_lint.model.project.exports import Meaning
    from torchperf_lint.model.project.module_resolver import Hop
    from torchperf_lint.model.syntax.index import CallRecord
    from torchperf_lint.syntax.source import Source


class Program(EditedFiles):
    """Queries about all files of a project."""

    def with_file(self, path: str, data: bytes) -> Program:
        """A copy of the project with one more file, which only the copy sees; trees and the recorder are shared."""
        self.drop_unused_trees()
        other = copy.copy(self)
        other._found = other._facts = {**self._facts, self._place_of(path): symbols_of(data)}
        other._symbol_index = SymbolIndex(other._facts, self._root)
        other._indexed, other._shares_trees, other._follows = dict(self._indexed), True, False
        other._forget()
        other._forget_what_lasts()
        return other

    def _analyze(self, source: Source, index: Index) -> AnalyzedFile:
        from torchperf_lint.model.analyzed_file import AnalyzedFile  # the whole model: a quiet project needs none of it

        return AnalyzedFile(source, index, self._hints, self)

    def steps_called_in(self, index: Index) -> frozenset[str]:
        """Names of functions anywhere that make a training step, as far as the file calls them."""
        key = self._key(index)
        names: frozenset[str] = self._ask(key, "steps_called_in", key)
        return names

    def calls_name(self, name: str, index: Index) -> bool:
        """Whether a file calls something of that name. Yes if a file cannot be read, or more than `MOST_FILES` may."""
        keys = self._ask(self._key(index), "files_calling", name)
        analyzed_files = map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES else [])
        return len(keys) > bounds.MOST_FILES or any(
            analyzed is None or name in analyzed.index.calls for analyzed in analyzed_files
        )

    def calls_given(self, name: str, index: Index) -> bool:
        """Whether some function of that name may call an argument; the query is recorded for the index's file."""
        return bool(self._ask(self._key(index), "calls_given", name))

    def speaks_of(self, topic: str, index: Index) -> bool:
        """Whether the file, or one that is connected to it by imports, mentions the topic."""
        key = self._key(index)
        return bool(self._ask(key, "speaks_of", topic, key))

    def programs_with(self, index: Index) -> list[AnalyzedFile]:
        """The programs that the file is part of, if all of them may require CUDA; else none."""
        own = self._key(index)
        keys = self._ask(own, "programs_speaking_of", topics.CUDA_AVAILABLE, own)
        analyzed_files = [self.analyzed(key) for key in keys] if len(keys) <= bounds.MOST_FILES else []
        return [analyzed for analyzed in analyzed_files if analyzed is not None] if None not in analyzed_files else []

    def dependencies_of(self, path: str, because: Iterable[Because]) -> Dependencies | None:
        """The dependencies of the report of the file at `path`, which names the rows of this evidence.

        None if they cannot be checked later.
        """
        named = {(self._place_of(step.path), step.row) for step in because if step.path is not None}
        for key, row in sorted(named):
            if key in self._facts:  # others are no Python files: what they state is checked by itself
                self.recorder.asked(("file row", key, str(row)))
        return self.recorder.dependencies(self._place_of(path))

    # -- names -----------------------------------------------------------------------------------------------------

    def absolute(self, name: str, index: Index) -> str:
        """An imported name as an absolute one, without leading dots."""
        if not name.startswith("."):
            return name
        key = self._key(index)
        found: str = self._ask(key, "absolute", name, key)
        return found

    def meaning(self, ref: str, index: Index) -> Meaning | None:
        """The meaning of a dotted name under the file's imports; None if the project does not show it."""
        return self._meaning(ref, self._key(index))

    def _meaning(self, ref: str, key: str) -> Meaning | None:
        return self.recorder.kept(self._meanings, (ref, key), lambda: self._look_up(ref, key, set()))

    def _look_up(self, ref: str, key: str, asked: set[tuple[str, str]]) -> Meaning | None:
        """Follow re-exports; `asked` holds the names already looked up, because imports may be cyclic."""
        hop: Hop = self._ask(key, "hop", ref, key)
        file, rest = hop.file, hop.rest
        if file is None:
            return LibraryName(hop.ref)
        if not rest:
            return ModuleName(hop.ref)
        name, _, more = rest.partition(".")
        if (rest, file) in asked or len(asked) > bounds.MOST_HOPS or not hop.offers:
            return None
        asked.add((rest, file))
        link = hop.link
        meant = self._look_up(link + (f".{more}" if more else ""), file, asked) if link else None
        if meant is not None:
            return meant
        if link is not None or hop.bound:
            analyzed = self.analyzed(file)
            if analyzed is None:
                return None
            found = analyzed.exports.meanings.get(name)
            if isinstance(found, Imported):
                return self._look_up(found.ref + (f".{more}" if more else ""), file, asked)
            if found is not None or name in analyzed.exports.variables:
                return None if more else found or Variable(analyzed.index, name)
        for module in self._ask(file, "starred_modules", file):
            meant = self._look_up(f"{module}.{rest}", file, asked)
            if meant is not None and not isinstance(meant, LibraryName):
                return meant
        return None

    def name_of(self, cls: ClassInfo) -> str:
        """The dotted name of a class of the project."""
        return f"{self._name_of(self._key(cls.index))}.{cls.name}"

    def _name_of(self, key: str) -> str:
        name: str = self._ask(key, "name_of", key)
        return name

    def defines(self, ref: str, function: FunctionInfo) -> bool:
        """Whether a qualified name of a library is this function of the project: the linted project is that library."""
        is_top = function.outer is function.index.module and function.cls is None
        return is_top and ref == f"{self._name_of(self._key(function.index))}.{function.name}"

    def stands_in_file(self, ref: str, index: Index) -> bool:
        """Whether the dotted name, under the file's imports, leads to a name in a file of the project."""
        key = self._key(index)
        place: tuple[str, str] | None = self._ask(key, "split", ref, key)
        return place is not None and bool(place[1])

    def starred(self, name: str, index: Index) -> str | None:
        """The dotted name of what `from module import *` binds to `name` in the file, if it comes from the project."""
        key = self._key(index)
        for module in () if name.startswith("_") else self._ask(key, "starred_modules", key):
            ref = f"{module}.{name}"
            if self._meaning(ref, key) is not None:
                return ref
        return None

    # -- callers ---------------------------------------------------------------------------------------------------

    def known_elsewhere(self, function: FunctionInfo) -> bool:
        """Whether another file calls or imports something of the function's name."""
        key, name = self._key(function.index), function.called_as
        if name == "__call__" and function.cls is not None:
            name = function.cls.name
        if function.cls is not None:
            family = self.inference(function.index).lineage(function.cls)[1:]
            if any(cls.index is not function.index and name in cls.index.handed for cls in family):
                return True
        return bool(self._ask(key, "is_known_beyond", name, key))

    def calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord] | None:
        """The calls in other files that may mean the function, by name and by those files' imports.

        None if there are more than `most` calls, or more than `most` files that may contain one.
        """
        if function.is_module:
            return []
        if len(self._files_calling(function)) > most:
            return None
        known = self.recorder.kept(
            self._calls, function, lambda: self._find_calls(function, self._files_calling(function))
        )
        return known if len(known) <= most else None

    def some_calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord]:
        """As many of these calls, those of the nearest files, where there are more: enough to show that one runs."""
        if function.is_module:
            return []
        question = function, most
        return self.recorder.kept(self._some_calls, question, lambda: self._find_some_calls(*question))

    def _find_some_calls(self, function: FunctionInfo, most: int) -> list[CallRecord]:
        calls = self._find_calls(function, self._nearest_calling(function, bounds.MOST_FILES_CALLING_METHOD))
        owners = [] if function.cls is None else self.inference(function.index).lineage(function.cls)
        return sorted(calls, key=lambda each: not any(_is_called_on(each.call.func, cls.name) for cls in owners))[:most]

    def _files_calling(self, function: FunctionInfo) -> list[str]:
        name = function.called_as
        return self.recorder.kept(self._files, self._function_key(function), lambda: self._callers(function, name))

    def _nearest_calling(self, function: FunctionInfo, most: int) -> list[str]:
        own = self._key(function.index)
        return sorted(self._files_calling(function), key=lambda file: (_distance(file, own), file))[:most]

    def _find_calls(self, function: FunctionInfo, files: list[str]) -> list[CallRecord]:
        name = function.called_as
        records: list[CallRecord] = []
        names = self._ask(self._key(function.index), "names", name)
        for key in files:
            analyzed = self.analyzed(key)
            if analyzed is not None:
                if name == "__call__" and function.cls is not None:
                    records += finding.calls_of_objects(analyzed.index, function.cls.name)
                else:
                    found = [record for each in names for record in analyzed.index.calls_named(each)]
                    records += {id(record): record for record in found}.values()
        return records

    def _callers(self, function: FunctionInfo, name: str) -> list[str]:
        own, cls = self._key(function.index), function.cls
        if name == "__call__" and cls is not None:
            objects = self._ask(own, "calling_objects", cls.name, own)
            return [key for key in objects if self._imports(key, cls.name, cls)]
        is_method = cls is not None and function.name != "__init__"
        if not is_method:
            if function.outer is not function.index.module:
                return []
            calling = self._ask(own, "calling_imported", name, own)
            return [key for key in calling if self._imports(key, name, cls or function)]
        files: list[str] = self._ask(own, "called_by", name, own)
        if len(files) <= bounds.MOST_FILES_CALLING:
            return files
        assert cls is not None
        lineage = self.inference(function.index).lineage(cls)
        family = {self._key(each.index) for each in lineage}
        # Who knows only a base class calls a method of it by way of the one there.
        known_by = {own, *(self._key(each.index) for each in lineage if name in each.methods)}
        from torchperf_lint.model.callgraph.registries import registries_of

        # Who knows only a registry that the class is in calls what this has built.
        known_by.update(self._key(index) for index in registries_of(self, cls).values())
        importing = {key for file in sorted(known_by) for key in self._ask(own, "importers", file)}
        owners = [each for each in lineage if name in each.methods or each is cls]
        # Who imports a class by its name does so, perhaps, from a package that hands it on.
        by_name = [(each, set(self._ask(own, "importing_it", each.name, self._key(each.index)))) for each in owners]
        return [
            key
            for key in files
            if key in family
            or key in importing
            or any(key in those and self._imports(key, each.name, each) for each, those in by_name)
        ]

    def methods_named(self, name: str, index: Index) -> list[FunctionInfo] | None:
        """The methods of that name, except in tests; None if a file cannot be read, or too many may have one."""
        keys = self._ask(self._key(index), "defining", name)
        analyzed_files = list(map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES_DEFINING else []))
        if None in analyzed_files or len(keys) > bounds.MOST_FILES_DEFINING:
            return None
        found = [analyzed.index.classes_with(name) for analyzed in analyzed_files if analyzed is not None]
        classes = [cls for classes in found for cls in classes]
        return [cls.methods[name] for cls in classes if name in cls.methods]

    def is_in_program(self, index: Index, other: Index) -> bool:
        """Whether the two files may be parts of one program: imports or a package connect them, over any number."""
        key = self._key(index)
        return index is other or bool(self._ask(key, "is_in_program", key, self._key(other)))

    def _imports(self, key: str, name: str, meant: FunctionInfo | ClassInfo) -> bool:
        """Whether the file at `key` imports the function or class, or a module that has it under one of its names."""
        home = self._key(meant.index)
        for ref, called in self._ask(home, "leading", home, name, key):
            found = self._meaning(ref, key)
            if isinstance(found, ModuleName):
                found = self._meaning(f"{found.name}.{called}", key)
            if found is meant:
                return True
        return False

    def names_elsewhere(self, name: str, index: Index) -> bool:
        """Whether another file may name, without calling it, a function or method of that name."""
        key = self._key(index)
        return bool(self._ask(key, "naming", name, key))

    def sets_elsewhere(self, name: str, index: Index) -> bool:
        """Whether another file sets an attribute of that name, other than of `self`. Yes if too many files may."""
        key = self._key(index)
        keys = self._ask(key, "naming", name, key)
        found = map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES else [])
        return len(keys) > bounds.MOST_FILES or any(each is None or name in each.index.stores for each in found)

    def naming_method(self, function: FunctionInfo) -> list[AnalyzedFile]:
        """The other files that may name a method without calling it; none if too many may."""
        key = self._key(function.index)
        keys = self._ask(key, "naming", function.name, key)
        found = map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES else [])
        return [analyzed for analyzed in found if analyzed is not None]

    def looking_up(self, name: str, index: Index) -> list[AnalyzedFile]:
        """The files that may look up an attribute of that name; the query is recorded for the index's file."""
        own = self._key(index)
        keys = [key for key in self._ask(own, "looking_up", name) if self._ask(own, "is_in_program", own, key)]
        return [analyzed for analyzed in map(self.analyzed, keys) if analyzed is not None]

    def may_be_looked_up(self, name: str, index: Index) -> bool:
        """Whether some file may look up an attribute of that name; the query is recorded for the index's file."""
        own = self._key(index)
        return any(self._ask(own, "is_in_program", own, key) for key in self._ask(own, "looking_up", name))

    def calling_class(self, cls: ClassInfo) -> list[AnalyzedFile]:
        """The other files that import the class by its name and may call it; none if there are too many."""
        own = self._key(cls.index)
        keys = self._ask(own, "calling_imported", cls.name, own)
        imported = [key for key in keys if self._imports(key, cls.name, cls)] if len(keys) <= bounds.MOST_FILES else []
        return [analyzed for analyzed in map(self.analyzed, imported) if analyzed is not None]

    def naming_class(self, cls: ClassInfo) -> list[AnalyzedFile]:
        """The other files that import the class; none if too many may."""
        own = self._key(cls.index)
        keys = self._ask(own, "importing_it", cls.name, own)
        imported = [key for key in keys if self._imports(key, cls.name, cls)] if len(keys) <= bounds.MOST_FILES else []
        return [analyzed for analyzed in map(self.analyzed, imported) if analyzed is not None]

    def importing(self, name: str, index: Index) -> list[AnalyzedFile]:
        """The other files that may import this name of a file; none if they are too many."""
        own = self._key(index)
        keys = self._ask(own, "importing_it", name, own)
        analyzed_files = map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES else [])
        return [analyzed for analyzed in analyzed_files if analyzed is not None]

    def reading_samples(self, cls: ClassInfo) -> list[AnalyzedFile]:
        """The other files that import the class and define a dataset or a data module; none if too many may."""
        own = self._key(cls.index)
        keys = self._ask(own, "importing_it", cls.name, own)
        readers = {key for name in loading.READER_FILES for key in (self._ask(own, "defining", name) if keys else ())}
        reading = [key for key in keys if key in readers and self._imports(key, cls.name, cls)]
        analyzed_files = map(self.analyzed, reading if len(reading) <= bounds.MOST_FILES else [])
        return [analyzed for analyzed in analyzed_files if analyzed is not None]

    def files_passing(self, meant: FunctionInfo | ClassInfo) -> list[AnalyzedFile]:
        """The other files that import the function or class by its name and pass it as an argument or put it away."""
        key = self._key(meant.index), *meant.place
        keys = self.recorder.kept(self._handing, key, lambda: self._files_passing(meant))
        return [analyzed for analyzed in map(self.analyzed, keys) if analyzed is not None]

    def _files_passing(self, meant: FunctionInfo | ClassInfo) -> list[str]:
        own = self._key(meant.index)
        handing = self._ask(own, "handing_imported", meant.name, own)
        return list(
            itertools.islice((key for key in handing if self._imports(key, meant.name, meant)), bounds.MOST_FILES)
        )

    def making(self, maker: FunctionInfo | ClassInfo, taker: str) -> list[AnalyzedFile]:
        """The other files that import the function or class, and call both it and something named `taker`."""
        own = self._key(maker.index)
        keys = self._ask(own, "making_imported", maker.name, taker, own)
        analyzed_files = (self.analyzed(key) for key in keys if self._imports(key, maker.name, maker))
        return list(
            itertools.islice((analyzed for analyzed in analyzed_files if analyzed is not None), bounds.MOST_FILES)
        )

    def heirs(self, cls: ClassInfo) -> list[ClassInfo]:
        """The subclasses of the class in its file and in files that import it by its name."""
        return self.recorder.kept(self._heirs, cls, lambda: self._find_heirs(cls))

    def _find_heirs(self, cls: ClassInfo) -> list[ClassInfo]:
        own, analyzed = self._by_index[cls.index]
        keys = self._ask(own, "importing_name", cls.name, own)
        analyzed_files = [analyzed, *map(self.analyzed, keys if len(keys) <= bounds.MOST_FILES else [])]
        found = [
            each
            for analyzed in analyzed_files
            if analyzed is not None
            for each in finding.classes_by_head(analyzed.index)
            if each is not cls
        ]
        heirs = [each for each in found if cls in self.inference(each.index).lineage(each)]
        for each in heirs:
            each.index.reads.mentions(each.name)
        return heirs

    # -- neighbours ------------------------------------------------------------------------------------------------

    def neighbours(self, index: Index) -> list[AnalyzedFile]:
        """The files that import this one, or a name of it through a package, and those that it imports.

        Tests that import the file are left out. A test itself has no neighbours, since it shows no program.
        """
        own, is_test = self._key(index), self._symbol_index.is_test
        if is_test(own):
            return []
        direct = self._ask(own, "importers", own)
        by_package = {
            key
            for package in direct
            if posixpath.basename(package) == "__init__.py"
            for key in self._ask(own, "importers", package)
            if any(_file_of(self._meaning(ref, key)) is index for ref in self._ask(own, "imports", key))
        }
        importing = [key for key in sorted({*direct, *by_package} - {own}) if not is_test(key)]
        imported = sorted(self._ask(own, "imported_files", own) - {own, *importing})
        analyzed_files = map(self.analyzed, [*importing[: bounds.MOST_FILES], *imported[: bounds.MOST_FILES]])
        return [analyzed for analyzed in analyzed_files if analyzed is not None]

    # -- accelerators ----------------------------------------------------------------------------------------------

    def serves_accelerator(self, index: Index) -> bool:
        """Whether the file, or a file that imports it directly or transitively, mentions an accelerator."""
        return self._reached(self._key(index))

    def reached(self, path: str) -> bool:
        """The same by path, for a file that need not have been read."""
        return self._reached(self._place_of(path))

    def _reached(self, key: str) -> bool:
        return bool(self._ask(key, "is_reached", key))

    def may_have_metrics(self, path: str) -> bool:
        """Whether the file may have metrics of torchmetrics: it imports them, or a file that does, by a few steps."""
        return bool(self._ask(self._place_of(path), "is_near_metrics", self._place_of(path)))


def _is_called_on(func: ast.expr, cls: str) -> bool:
    """Whether a method is called on something that has the name of the class."""
    return isinstance(func, ast.Attribute) and is_named_like(func.value, cls)


def _distance(one: str, other: str) -> int:
    """How many folders lie between two files: up from the one, and down to the other."""
    parts, others = one.split("/"), other.split("/")
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))
    return len(parts) + len(others) - 2 * shared


def _file_of(meaning: Meaning | None) -> Index | None:
    """The file that the meaning belongs to."""
    if isinstance(meaning, Variable):
        return meaning.home
    return meaning.index if isinstance(meaning, (FunctionInfo, ClassInfo)) else None
