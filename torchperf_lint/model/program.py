"""The project as one program: what its files know of each other, and their trees, read only when a question needs one.

Facts (`facts.py`) say in which files an answer may lie; the answer itself comes from those files' own models. Every
question that one file asks of another is asked one level below, so that files cannot ask each other for ever, no
answer depends on which file is looked at first, and the work grows with the code and not faster.
"""

from __future__ import annotations

import ast
import copy
import itertools
import posixpath
from typing import TYPE_CHECKING, Any

from torchperf_lint.knowledge import topics
from torchperf_lint.model import bounds
from torchperf_lint.model.project.dependencies import Trail
from torchperf_lint.model.project.exports import Imported, LibraryName, ModuleName, Variable
from torchperf_lint.model.project.file_symbols import Facts, facts_of
from torchperf_lint.model.project.symbol_index import Hop, Links
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Index
from torchperf_lint.syntax.identity import digest_of, key_of
from torchperf_lint.syntax.recursion import has_room
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.analyzed_file import Unit
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.frequency.may_reach import Warmth
    from torchperf_lint.model.project.exports import Meaning
    from torchperf_lint.model.syntax.index import CallRecord

_Place = tuple[str, int, str]
"""A function, by its file, row and name: as good as the function itself as long as no file changes."""


class Program:
    """Answers for all files of a project; `read` gives a file's bytes and may raise OSError.

    Files go by absolute path, with slashes. `shown` is how a path is told to the user, and `place_of` the way back.
    """

    def __init__(
        self,
        facts: Mapping[str, Facts],
        root: str,
        hints: Hints,
        read: Callable[[str], bytes],
        shown: Callable[[str], str] = str,
        place_of: Callable[[str], str] = key_of,
    ) -> None:
        self._found = facts
        self._facts = dict(facts)  # but for what has been opened with another content
        self._root = root
        self._hints = hints
        self._read = read
        self._shown = shown
        self._place_of = place_of
        self._links = Links(self._facts, root)
        self.trail = Trail()
        self._indexed: dict[str, tuple[Source, Index]] = {}
        self._loaded = 0
        self._asked_at: dict[str, int] = {}  # file -> the number of the last question that it was asked for
        self._asked = 0
        self._forget()
        self._forget_what_lasts()

    def forget(self) -> None:
        """Forget all answers: the stack may have been full while some were worked out."""
        for unit in filter(None, self._units.values()):
            unit.take_apart()
        self._forget()
        self._forget_what_lasts()

    def _forget(self) -> None:
        """Forget all answers that name trees. Trees say nothing of other files, and stay."""
        self._units: dict[str, Unit | None] = {}
        self._by_index: dict[Index, tuple[str, Unit]] = {}
        # Each with its trail:
        self._meanings: dict[tuple[str, str], tuple[Meaning | None, int]] = {}
        self._calls: dict[FunctionInfo, tuple[list[CallRecord], int]] = {}

    def _forget_what_lasts(self) -> None:
        """Forget the answers that name no tree, which stay when trees go."""
        # Each with its trail:
        self._files: dict[_Place, tuple[list[str], int]] = {}
        self._handing: dict[_Place, tuple[list[str], int]] = {}
        self._warmth: dict[tuple[str, bool], Warmth] = {}

    def _ask(self, key: str, question: str, *texts: str) -> Any:
        """What facts tell: all that is learnt of them goes through here, in the name of the file that it is for."""
        self.trail.asked(key, (question, *texts))
        return getattr(self._links, question)(*texts)

    def _key(self, index: Index) -> str:
        return self._by_index[index][0]

    def _lasting(self, function: FunctionInfo) -> _Place:
        return self._key(function.index), *function.place

    # -- files -----------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Let go of the trees that were not asked for lately, if there are too many; to be called between files."""
        if self._loaded > bounds.MOST_BYTES_LOADED:
            for unit in filter(None, self._units.values()):
                unit.take_apart()
            self._forget()
            for key in sorted(self._indexed, key=lambda key: self._asked_at.get(key, 0)):
                if self._loaded <= bounds.MOST_BYTES_LOADED * 3 // 4:
                    break
                self._indexed[key][1].take_apart()
                self._let_go(key)

    def open(self, path: str, data: bytes, source: Source) -> Unit:
        """The file at `path` with the content that it has now; what else is known of it gives way.

        Raises Unreadable where it cannot be parsed.
        """
        key = self._place_of(path)
        known = self._facts.get(key)
        if known is None or known.digest != digest_of(data):
            self._learn(key, facts_of(data))
        self.trail.opened(key)
        unit = self._units.get(key)
        if unit is None or unit.source.utf8 != source.utf8:
            held = self._indexed.get(key)
            if held is None or held[0].utf8 != source.utf8:
                held = source, Index(source.parse(), source.path)
            held[1].path = source.path
            unit = self._keep(key, *held)
        return unit

    def beside(self, path: str, data: bytes) -> Program:
        """The same project with this content of one file; its answers are its own, facts and trail are shared."""
        self.make_room()
        key, other = self._place_of(path), copy.copy(self)
        other._facts = {**self._facts, key: (self._facts.get(key) or facts_of(data))._replace(digest=digest_of(data))}
        other._indexed = dict(self._indexed)
        other._forget()
        other._forget_what_lasts()
        return other

    def close(self, path: str) -> None:
        """Take the file as the project has it, whatever it has been opened with."""
        key = self._place_of(path)
        if self._facts.get(key) != self._found.get(key):
            self._learn(key, self._found.get(key))

    def _learn(self, key: str, facts: Facts | None) -> None:
        """Take the file for one with these facts, or for none; nothing that was answered before holds any longer."""
        before = self._facts.get(key)
        if facts is None:
            self._facts.pop(key, None)
        else:
            self._facts[key] = facts
        if facts is None or before is None or facts._replace(digest="") != before._replace(digest=""):
            self._links = Links(self._facts, self._root)
        self.trail.certain = False
        self._let_go(key)
        self._forget()
        self._forget_what_lasts()

    def _let_go(self, key: str) -> None:
        if key in self._indexed:
            self._loaded -= len(self._indexed.pop(key)[0].utf8)

    def _keep(self, key: str, source: Source, index: Index) -> Unit:
        from torchperf_lint.model.analyzed_file import Unit  # the whole model, which a project of quiet files needs not

        self._let_go(key)
        self._indexed[key] = source, index
        self._loaded += len(source.utf8)
        unit = self._units[key] = Unit(source, index, self._hints, self)
        self._by_index[index] = key, unit
        return unit

    def _ask_for(self, key: str) -> None:
        self._asked += 1
        self._asked_at[key] = self._asked

    def unit(self, key: str) -> Unit | None:
        """The file, read and indexed; None if that cannot be done, or if it is too large to be asked."""
        self.trail.opened(key)
        self._ask_for(key)
        if key not in self._units:
            self._units[key] = None
            known = self._indexed.get(key)
            try:
                if known is None:
                    data = self._read(key)
                    if digest_of(data) != self._facts[key].digest:
                        self.trail.certain = False  # it has changed since the project was looked at
                    source = Source(self._shown(key), data)
                    if len(source.utf8) > bounds.MOST_BYTES:
                        return None
                    known = source, Index(source.parse(), source.path)
                known[1].path = self._shown(key)  # who opened it may have named it in another way
                self._keep(key, *known)
            except Unreadable:
                pass
            except OSError:
                self.trail.certain = False
            except RecursionError:
                if not has_room():
                    raise  # to be asked again by whoever has more
                self.trail.certain = False
        unit = self._units[key]
        return None if unit is None or len(unit.source.utf8) > bounds.MOST_BYTES else unit  # it may have been opened

    def unit_of(self, index: Index) -> Unit:
        """The file that an index belongs to."""
        key, unit = self._by_index[index]
        self.trail.opened(key)
        self._ask_for(key)
        return unit

    def world(self, index: Index, level: int) -> ValueQuestions:
        """The values of the file that an index belongs to."""
        return self.unit_of(index).world(level)

    def warmth(self, index: Index, *, from_afar: bool) -> Warmth:
        """What is known of the warmth of the file's functions, to be added to; it stays when the tree goes."""
        return self._warmth.setdefault((self._key(index), from_afar), {})

    def steps_called_in(self, index: Index) -> frozenset[str]:
        """Names that are called in the file, of functions anywhere that make a training step."""
        key = self._key(index)
        names: frozenset[str] = self._ask(key, "steps_called_in", key)
        return names

    def calls_name(self, name: str, index: Index) -> bool:
        """Whether a file calls something of the name; one that cannot be read may, or one of more than `MOST_FILES`."""
        keys = self._ask(self._key(index), "files_calling", name)
        units = map(self.unit, keys if len(keys) <= bounds.MOST_FILES else [])
        return len(keys) > bounds.MOST_FILES or any(unit is None or name in unit.index.calls for unit in units)

    def calls_given(self, name: str, index: Index) -> bool:
        """Whether some function that goes by the name may call what it is given; it is asked for the index's file."""
        return bool(self._ask(self._key(index), "calls_given", name))

    def speaks_of(self, topic: str, index: Index) -> bool:
        """Whether the file speaks of the topic, or one that imports tie it to."""
        key = self._key(index)
        return bool(self._ask(key, "speaks_of", topic, key))

    def programs_with(self, index: Index) -> list[Unit]:
        """The programs that the file is part of, if all of them may be for CUDA alone; else none."""
        own = self._key(index)
        keys = self._ask(own, "programs_speaking_of", topics.CUDA_AVAILABLE, own)
        units = [self.unit(key) for key in keys] if len(keys) <= bounds.MOST_FILES else []
        return [unit for unit in units if unit is not None] if None not in units else []

    # -- names -----------------------------------------------------------------------------------------------------

    def absolute(self, name: str, index: Index) -> str:
        """An imported name without the leading dots that it has in its file."""
        if not name.startswith("."):
            return name
        key = self._key(index)
        found: str = self._ask(key, "absolute", name, key)
        return found

    def meaning(self, ref: str, index: Index) -> Meaning | None:
        """What a dotted name, as the file's imports give it, stands for; None where the project cannot tell."""
        return self._meaning(ref, self._key(index))

    def _meaning(self, ref: str, key: str) -> Meaning | None:
        return self.trail.kept(self._meanings, (ref, key), lambda: self._look_up(ref, key, set()))

    def _look_up(self, ref: str, key: str, asked: set[tuple[str, str]]) -> Meaning | None:
        """Follow re-exports; `asked` is what has been asked on the way, for imports may run in circles."""
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
            unit = self.unit(file)
            if unit is None:
                return None
            found = unit.exports.meanings.get(name)
            if isinstance(found, Imported):
                return self._look_up(found.ref + (f".{more}" if more else ""), file, asked)
            if found is not None or name in unit.exports.variables:
                return None if more else found or Variable(unit.index, name)
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
        """Whether a name that is taken for a library's is this function of the project: a library that is linted."""
        is_top = function.outer is function.index.module and function.cls is None
        return is_top and ref == f"{self._name_of(self._key(function.index))}.{function.name}"

    def stands_in_file(self, ref: str, index: Index) -> bool:
        """Whether what a dotted name stands for, as the file's imports give it, is told by a file of the project."""
        key = self._key(index)
        place: tuple[str, str] | None = self._ask(key, "split", ref, key)
        return place is not None and bool(place[1])

    def starred(self, name: str, index: Index) -> str | None:
        """What a name imports that `from module import *` binds in the file, if it comes from a file of the project."""
        key = self._key(index)
        for module in () if name.startswith("_") else self._ask(key, "starred_modules", key):
            ref = f"{module}.{name}"
            if self._meaning(ref, key) is not None:
                return ref
        return None

    # -- callers ---------------------------------------------------------------------------------------------------

    def known_elsewhere(self, function: FunctionInfo) -> bool:
        """Whether another file calls or imports anything of the function's name."""
        key, name = self._key(function.index), function.called_as
        if name == "__call__" and function.cls is not None:
            name = function.cls.name
        if function.cls is not None:
            family = self.world(function.index, 0).lineage(function.cls)[1:]
            if any(cls.index is not function.index and name in cls.index.handed for cls in family):
                return True
        return bool(self._ask(key, "is_known_beyond", name, key))

    def calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord]:
        """The calls in other files that may mean the function, by name and by what those files import.

        None of them if there are more than `most`, or more files that may hold one.
        """
        if isinstance(function.node, ast.Module):
            return []
        name = function.called_as
        files = self.trail.kept(self._files, self._lasting(function), lambda: self._callers(function, name))
        if len(files) > most:
            return []
        known = self.trail.kept(self._calls, function, lambda: self._find_calls(function, name, files))
        return known if len(known) <= most else []

    def _find_calls(self, function: FunctionInfo, name: str, files: list[str]) -> list[CallRecord]:
        records: list[CallRecord] = []
        names = self._names(name, self._key(function.index))
        for key in files:
            unit = self.unit(key)
            if unit is not None:
                if name == "__call__" and function.cls is not None:
                    records += unit.index.calls_of_objects(function.cls.name)
                else:
                    found = [record for each in names for record in unit.index.calls_named(each)]
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
        lineage = self.world(function.index, 0).lineage(cls)
        family = {self._key(each.index) for each in lineage}
        # Who knows only a base class calls a method of it by way of one without a body there.
        known_by = {own, *(self._key(each.index) for each in lineage if _promises(each, name))}
        from torchperf_lint.model.callgraph.registries import registries_of

        # Who knows only a registry that the class is in calls what this has built.
        known_by.update(self._key(index) for index in registries_of(self, cls).values())
        importing = {key for file in sorted(known_by) for key in self._ask(own, "importers", file)}
        return [key for key in files if key in family or key in importing]

    def _names(self, name: str, key: str) -> list[str]:
        """The name, and those that some file gives to it by `as`."""
        return list(self._ask(key, "names", name))

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

    def handing_on(self, function: FunctionInfo) -> list[Unit]:
        """The other files that import the function by its name and hand it on."""
        keys = self.trail.kept(self._handing, self._lasting(function), lambda: self._handing_on(function))
        return [unit for unit in map(self.unit, keys) if unit is not None]

    def _handing_on(self, function: FunctionInfo) -> list[str]:
        own = self._key(function.index)
        handing = self._ask(own, "handing_imported", function.name, own)
        return list(
            itertools.islice((key for key in handing if self._imports(key, function.name, function)), bounds.MOST_FILES)
        )

    def making(self, maker: FunctionInfo | ClassInfo, taker: str) -> list[Unit]:
        """The other files that import the function or class, and call it as well as something of the other name."""
        own = self._key(maker.index)
        keys = self._ask(own, "making_imported", maker.name, taker, own)
        units = (self.unit(key) for key in keys if self._imports(key, maker.name, maker))
        return list(itertools.islice((unit for unit in units if unit is not None), bounds.MOST_FILES))

    def heirs(self, cls: ClassInfo) -> list[ClassInfo]:
        """The classes of its file, and of files that import it by its name, that descend from the class."""
        own, unit = self._by_index[cls.index]
        keys = self._ask(own, "importing_name", cls.name, own)
        units = [unit, *map(self.unit, keys if len(keys) <= bounds.MOST_FILES else [])]
        found = [each for unit in units if unit is not None for each in unit.index.classes if each is not cls]
        return [each for each in found if cls in self.world(each.index, 0).lineage(each)]

    # -- neighbours ------------------------------------------------------------------------------------------------

    def neighbours(self, index: Index) -> list[Unit]:
        """The files that import this one, or by way of a package a name of it, and those that it imports.

        Where the file is no test, tests are none of them; for a test, which shows no program, there are none.
        """
        own, is_test = self._key(index), self._links.is_test
        if is_test(own):
            return []
        direct = self._ask(own, "importers", own)
        by_package = {
            key
            for package in direct
            if posixpath.basename(package) == "__init__.py"
            for key in self._ask(own, "importers", package)
            if any(_home(self._meaning(ref, key)) is index for ref in self._ask(own, "imports", key))
        }
        importing = [key for key in sorted({*direct, *by_package} - {own}) if not is_test(key)]
        imported = sorted(self._ask(own, "imported_files", own) - {own, *importing})
        units = map(self.unit, [*importing[: bounds.MOST_FILES], *imported[: bounds.MOST_FILES]])
        return [unit for unit in units if unit is not None]

    # -- accelerators ----------------------------------------------------------------------------------------------

    def serves_accelerator(self, index: Index) -> bool:
        """Whether the file speaks of an accelerator, or a file that does imports it (over others, or by itself)."""
        return self._reached(self._key(index))

    def reached(self, path: str) -> bool:
        """The same for a file that need not have been read."""
        return self._reached(self._place_of(path))

    def _reached(self, key: str) -> bool:
        return bool(self._ask(key, "is_reached", key))

    def may_have_metrics(self, path: str) -> bool:
        """Whether the file may have metrics of torchmetrics: it imports that, or other files that do, by some steps."""
        return bool(self._ask(self._place_of(path), "is_near_metrics", self._place_of(path)))


def _home(meaning: Meaning | None) -> Index | None:
    """The file that what is meant stands in."""
    if isinstance(meaning, Variable):
        return meaning.home
    return meaning.index if isinstance(meaning, (FunctionInfo, ClassInfo)) else None


def _promises(cls: ClassInfo, name: str) -> bool:
    """Whether the class has the method without a body."""
    return name in cls.methods and cls.methods[name].is_abstract
