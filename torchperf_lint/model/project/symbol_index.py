"""The project's symbol index: who imports, calls and passes on what, before any file is parsed.

The analysis of one file learns about other files' symbols only by the queries in QUESTIONS, from strings to plain data.
So stored queries can be repeated later to see whether their results have changed.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.knowledge.topics import PROGRAM
from torchperf_lint.model import bounds
from torchperf_lint.model.project.lookups import Lookups
from torchperf_lint.model.project.module_resolver import Hop, ModuleResolver
from torchperf_lint.model.project.tables import connected, inverted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_lint.model.project.file_symbols import FileSymbols

_TESTS = re.compile(r"(^|/)(tests?|testing|benchmarks?|docs?)/|(^|/)(test_[^/]*|[^/]*_test|conftest|setup)\.py$")


QUESTIONS = {
    "absolute": 2,
    "called_by": 2,
    "calls_given": 1,
    "calling_imported": 2,
    "calling_objects": 2,
    "defining": 1,
    "files_calling": 1,
    "handing_imported": 2,
    "hop": 2,
    "imported_files": 1,
    "importers": 1,
    "importing_it": 2,
    "importing_name": 2,
    "imports": 1,
    "is_in_program": 2,
    "is_known_beyond": 2,
    "is_near_metrics": 1,
    "is_reached": 1,
    "leading": 3,
    "looking_up": 1,
    "making_imported": 3,
    "name_of": 1,
    "names": 1,
    "naming": 2,
    "programs_speaking_of": 2,
    "speaks_of": 2,
    "split": 2,
    "starred_modules": 1,
    "steps_called_in": 1,
}
"""Methods of SymbolIndex, each with its number of arguments."""


class SymbolIndex:
    """Lazily built tables of a project's symbols; they are valid as long as no file's symbols change."""

    def __init__(self, facts: Mapping[str, FileSymbols], root: str) -> None:
        self._facts = facts
        self._root = root
        self.modules = ModuleResolver(facts, root)
        self._links_of: dict[str, dict[str, str]] = {}
        self._refs_by_end: dict[str, tuple[list[int], dict[str, list[int]]]] = {}
        self._places: dict[str, dict[str, tuple[str, str] | None]] = {}
        self._tests: dict[str, bool] = {}
        self._stars_of: dict[str, list[str]] = {}
        self._offered: dict[str, set[str]] = {}
        self._imported: dict[str, set[str]] = {}
        self._looked_up: dict[str, list[str]] = {}
        self._called_by: dict[tuple[str, str], list[str]] = {}
        self._importing_names: dict[tuple[str, str], list[str]] = {}

    # -- questions -------------------------------------------------------------------------------------------------

    def answer(self, question: tuple[str, ...]) -> object:
        """The result of a stored query, given as its name and arguments; None if it has no result any more."""
        name, *texts = question
        if QUESTIONS.get(name) != len(texts):
            return None
        try:
            return getattr(self, name)(*texts)
        except KeyError:  # the file no longer exists
            return None

    def absolute(self, name: str, key: str) -> str:
        """The absolute form of a name that the file imports, without leading dots."""
        return self.modules.absolute(name, key)

    def name_of(self, key: str) -> str:
        """The dotted name under which the file is imported."""
        return self.modules.name_of(key)

    def split(self, name: str, key: str) -> tuple[str, str] | None:
        """The file that a dotted name leads to under the imports of the file at `key`, and the rest of the name."""
        return self.modules.split(self.modules.absolute(name, key), key)

    def hop(self, ref: str, key: str) -> Hop:
        """The next step in resolving a dotted name under the imports of the file at `key`."""
        ref = self.modules.absolute(ref, key)
        place = self.modules.split(ref, key)
        if place is None:
            return Hop(ref)
        file, rest = place
        if not rest:
            return Hop(self.modules.name_of(file), file)
        name = rest.partition(".")[0]
        if not self._may_offer(file, name):
            return Hop(ref, file, rest)
        bound = name in self._facts[file].bound or not name.isascii()
        return Hop(ref, file, rest, True, self._link(name, file), bound)

    def starred_modules(self, key: str) -> list[str]:
        """The absolute names of the project's modules from which the file imports `*`."""
        starred = (self._module(module, key) for module in self._stars(key))
        return [module[1] for module in starred if module is not None]

    def imports(self, key: str) -> tuple[str, ...]:
        """The file's imports as written."""
        return self._facts[key].imports

    def names(self, name: str) -> list[str]:
        """The name, and the `as` names that some file gives it."""
        return [name, *self._renamed.get(name, ())]

    def leading(self, home: str, name: str, key: str) -> list[tuple[str, str]]:
        """The file's imports that may bring in that name of the file `home`, or a module that has it.

        Each comes with the name, or the `as` name, under which it may be available. An import of `*` is written as an
        import of the name itself.
        """
        return list(self._leading(home, name, key))

    def _leading(self, home: str, name: str, key: str) -> Iterator[tuple[str, str]]:
        names = self.names(name)
        for ref in self._refs_with(name, key):
            for each in names:
                if self._may_lead_to(home, ref, each, key):
                    yield f"{ref[:-1]}{each}" if ref.endswith(".*") else ref, each

    def calling_imported(self, name: str, home: str) -> list[str]:
        """The files of `called_by` whose imports allow that they call the name of the file `home`."""
        return self._importing_it(self.called_by(name, home), name, home)

    def calling_objects(self, name: str, home: str) -> list[str]:
        """The same for the name alone, without its `as` names."""
        return self._importing_it(self._elsewhere(self._calling.get(name, ()), home), name, home)

    def handing_imported(self, name: str, home: str) -> list[str]:
        """The other files whose imports allow that they name what the file `home` has by that name, to pass it on.

        They import it, or a module that has it: `f = layers.name`.
        """
        files = sorted({*self._handing.get(name, ()), *self._naming.get(name, ())} - {home})
        return self._importing_it(files, name, home)

    def making_imported(self, maker: str, taker: str, home: str) -> list[str]:
        """The other files that call the name `maker` of the file `home` and something named `taker`."""
        both = {*self._calling.get(taker, ())}.intersection(self._calling.get(maker, ())) - {home}
        return self._importing_it(sorted(both), maker, home)

    def _importing_it(self, files: list[str], name: str, home: str) -> list[str]:
        return [key for key in files if next(self._leading(home, name, key), None) is not None]

    def _refs_with(self, name: str, key: str) -> list[str]:
        """The file's imports that may bring in something of that name, or a module that has it."""
        known = self._refs_by_end.get(key)
        if known is None:
            known = self._refs_by_end[key] = self._sorted_by_end(key)
        always, by_end = known
        places = {place for each in self.names(name) for place in by_end.get(each, ())}
        imports = self._facts[key].imports
        return [imports[place] for place in sorted(places.union(always))]

    def _sorted_by_end(self, key: str) -> tuple[list[int], dict[str, list[int]]]:
        """Positions in the file's imports: those that may bring in anything, and the others by their last name."""
        always: list[int] = []
        by_end: dict[str, list[int]] = {}
        for place, ref in enumerate(self._facts[key].imports):
            end = ref.rpartition(".")[2]
            if end == "*" or end in self.modules.last_names or end in self._new_names:
                always.append(place)
            else:
                by_end.setdefault(end, []).append(place)
        return always, by_end

    def called_by(self, name: str, key: str) -> list[str]:
        """The program's other files that call something of the name, or an `as` name; tests count only for tests."""
        known = self._called_by.get((name, key))
        if known is None:
            calling = self._elsewhere({each for new in self.names(name) for each in self._calling.get(new, ())}, key)
            known = [each for each in calling if self.is_test(key) or self.is_in_program(key, each)]
            self._called_by[name, key] = known
        return known

    def _elsewhere(self, files: Iterable[str], key: str) -> list[str]:
        tested = self.is_test(key)
        return sorted(each for each in files if each != key and (tested or not self.is_test(each)))

    def files_calling(self, name: str) -> list[str]:
        """The files that may call something of the name."""
        return sorted(self._calling.get(name, ()))

    def defining(self, name: str) -> list[str]:
        """The files, except tests, that may define a function or method of the name."""
        return [key for key in self._defining.get(name, ()) if not self.is_test(key)]

    def is_in_program(self, key: str, other: str) -> bool:
        """Whether the two files may be parts of one program: imports or a package connect them, over any number."""
        return self._group_of.get(key, key) == self._group_of.get(other, other)

    def calls_given(self, name: str) -> bool:
        """Whether some function of that name may call one of its parameters."""
        return not name.isascii() or name in self._calling_given

    def is_known_beyond(self, name: str, key: str) -> bool:
        """Whether another file calls, imports or hands on something of the name, or some file may look it up."""
        tables = (self._calling, self._importing, self._naming)
        known = any(other != key for each in self.names(name) for table in tables for other in table.get(each, ()))
        return known or bool(self.looking_up(name))

    def naming(self, name: str, key: str) -> list[str]:
        """The other files, except tests, of the same program that name something of the name without calling it."""
        named = self._naming.get(name, ())
        return [each for each in named if each != key and not self.is_test(each) and self.is_in_program(key, each)]

    def looking_up(self, name: str) -> list[str]:
        """The files, except tests, that may look up an attribute of that name by `getattr`; none if too many may."""
        known = self._looked_up.get(name)
        if known is None:
            known = self._looked_up[name] = self._lookups.files(name)
        return known

    def importing_name(self, name: str, key: str) -> list[str]:
        """The other files, except tests, that import something of the name."""
        return [each for each in self._importing.get(name, ()) if each != key and not self.is_test(each)]

    def importing_it(self, name: str, home: str) -> list[str]:
        """The other files, except tests, that may import the name of the file `home`, or call it by its module."""
        known = self._importing_names.get((name, home))
        if known is None:
            files = {*self.importing_name(name, home), *self.called_by(name, home)}
            known = self._importing_it(sorted(each for each in files if not self.is_test(each)), name, home)
            self._importing_names[name, home] = known
        return known

    def importers(self, key: str) -> list[str]:
        """The files that import the file, or a name from it."""
        return self._imported_by.get(key, [])

    def steps_called_in(self, key: str) -> frozenset[str]:
        """Names of functions anywhere that make a training step, as far as the file calls them."""
        called = self._facts[key].called
        return frozenset(name for name in self._step_names if name in called or not name.isascii())

    def is_reached(self, key: str) -> bool:
        """Whether the file, or a file that imports it directly or transitively, mentions an accelerator."""
        return key in self._reached

    def speaks_of(self, topic: str, key: str) -> bool:
        """Whether the file, or one connected to it by imports in any direction and number, mentions the topic."""
        return topic in self._topics[key]

    def programs_speaking_of(self, topic: str, key: str) -> list[str]:
        """The programs that transitively import the file, if each of them mentions the topic; else none."""
        group, pending = {key}, [key]
        while pending:
            new = set(self.importers(pending.pop())) - group
            group |= new
            pending += new
        programs = [each for each in group if PROGRAM in self._facts[each].topics or not self.importers(each)]
        speak = all(topic in self._facts[each].topics for each in programs)
        return sorted(programs) if speak else []

    def is_near_metrics(self, key: str) -> bool:
        """Whether the file imports torchmetrics, directly or over a few files."""
        return key in self._near_metrics

    # -- tables ----------------------------------------------------------------------------------------------------

    def _module(self, ref: str, key: str) -> tuple[str, str] | None:
        """The file and absolute name of a module that the file at `key` imports; None if the project has none."""
        name = self.modules.absolute(ref, key)
        place = self.modules.split(name, key)
        return None if place is None or place[1] else (place[0], name)

    def _link(self, name: str, key: str) -> str | None:
        """The target of a name that the file imports, or an empty text if uncertain; None if it is not imported."""
        links = self._links_of.get(key)
        if links is None:
            links = self._links_of[key] = dict(self._facts[key].links)
        return links.get(name)

    def _stars(self, key: str) -> list[str]:
        """The modules from which the file imports `*`."""
        known = self._stars_of.get(key)
        if known is None:
            refs = (ref for ref in self._facts[key].imports if ref.endswith("*"))
            known = self._stars_of[key] = [ref[:-1] if ref.strip(".") == "*" else ref[:-2] for ref in refs]
        return known

    def _may_offer(self, key: str, name: str) -> bool:
        """Whether the file may have the name: its symbols rule out most names without parsing it."""
        offered = self._offered.get(key)
        if offered is None:
            offered = self._offered[key] = self._offered_by(key)
        return name in offered or not name.isascii()

    def _offered_by(self, key: str) -> set[str]:
        files = [key]
        found: set[str] = set()
        for file in files:
            found |= self._facts[file].bound
            found.update(name for name, _ in self._facts[file].links)
            for module in self._stars(file):
                found |= self.modules.last_names  # a package also offers its modules
                starred = self._module(module, file)
                if starred is not None and starred[0] not in files:
                    files.append(starred[0])
        return found

    def imported_files(self, key: str) -> set[str]:
        """The files that the file imports, or imports names from."""
        known = self._imported.get(key)
        if known is None:
            places = (self.modules.split(self.modules.absolute(ref, key), key) for ref in self._facts[key].imports)
            known = self._imported[key] = {place[0] for place in places if place is not None}
        return known

    def is_test(self, key: str) -> bool:
        """Whether the file is a test: its calls show nothing about how a program runs."""
        known = self._tests.get(key)
        if known is None:
            known = self._tests[key] = _TESTS.search(key.removeprefix(self._root)) is not None
        return known

    @functools.cached_property
    def _imported_by(self) -> dict[str, list[str]]:
        """File -> the files that import it, or a name from it."""
        return inverted((key, sorted(self.imported_files(key))) for key in sorted(self._facts))

    def _may_lead_to(self, home: str, ref: str, name: str, key: str) -> bool:
        """Whether the symbols allow that the import leads to the name in file `home`, or to a module that has it."""
        place = self._place_of(ref, name, key)
        for _ in range(bounds.MOST_HOPS):
            if place is None:
                return False
            file, rest = place
            first, dot, more = (rest or name).partition(".")
            link = self._link(first, file)
            if not link:
                offered = bool(self._stars(file)) and self._may_offer(file, first)
                return file == home or link is not None or offered or not first.isascii()
            place = self.split(f"{link}{dot}{more}", file)
        return True

    def _place_of(self, ref: str, name: str, key: str) -> tuple[str, str] | None:
        """The file that the import leads to and the rest of the name; for `*`, that of the name itself."""
        if ref.endswith(".*"):
            return self.split(f"{ref[:-1]}{name}", key)
        places = self._places.setdefault(key, {})
        if ref not in places:
            places[ref] = self.split(ref, key)
        return places[ref]

    @functools.cached_property
    def _calling(self) -> dict[str, list[str]]:
        """Name -> the files that call something of that name."""
        return inverted((key, facts.called) for key, facts in sorted(self._facts.items()))

    @functools.cached_property
    def _calling_given(self) -> frozenset[str]:
        """Names, `as` names included, of functions that may call one of their parameters."""
        own = frozenset().union(*(facts.callers for facts in self._facts.values()))
        return own.union(*(self._renamed.get(name, ()) for name in own))

    @functools.cached_property
    def _defining(self) -> dict[str, list[str]]:
        """Name -> the files that define a function or method of that name."""
        return inverted((key, sorted(facts.defined)) for key, facts in sorted(self._facts.items()))

    @functools.cached_property
    def _naming(self) -> dict[str, list[str]]:
        """Name -> the files that name it without calling it, for names of functions and methods of the project."""
        return inverted(
            (key, sorted(facts.named & self._defining.keys())) for key, facts in sorted(self._facts.items())
        )

    @functools.cached_property
    def _lookups(self) -> Lookups:
        """The attributes that the files, except tests, look up by their names."""
        return Lookups({key: facts for key, facts in sorted(self._facts.items()) if not self.is_test(key)})

    @functools.cached_property
    def _group_of(self) -> dict[str, str]:
        """File -> the first of the files that imports or a package connect with it; tests connect none."""
        tied = self._tied(key for key in self._facts if not self.is_test(key))
        found: dict[str, str] = {}
        for key in sorted(tied):
            if key not in found:
                found.update(dict.fromkeys(connected(key, tied), key))
        return found

    @functools.cached_property
    def _renamed(self) -> dict[str, list[str]]:
        """Name -> the `as` names under which files import it."""
        pairs = sorted({pair for facts in self._facts.values() for pair in facts.renamed})
        return inverted((new, [old]) for old, new in pairs)

    @functools.cached_property
    def _new_names(self) -> set[str]:
        """The `as` names in the project."""
        return {new for facts in self._facts.values() for _, new in facts.renamed}

    @functools.cached_property
    def _importing(self) -> dict[str, list[str]]:
        """Name -> the files that import something of that name."""
        return inverted(
            (key, dict.fromkeys(ref.rpartition(".")[2] for ref in facts.imports))
            for key, facts in sorted(self._facts.items())
        )

    @functools.cached_property
    def _handing(self) -> dict[str, list[str]]:
        """Name -> the files that import something of that name and pass it on."""
        return inverted((key, sorted(facts.handed)) for key, facts in sorted(self._facts.items()))

    @functools.cached_property
    def _step_names(self) -> frozenset[str]:
        """Names of functions anywhere that make a training step."""
        return frozenset().union(*(facts.steps for facts in self._facts.values()))

    @functools.cached_property
    def _topics(self) -> dict[str, frozenset[str]]:
        """File -> the topics of all files that are connected to it by imports or by a package, tests included."""
        tied = self._tied(self._facts)
        found: dict[str, frozenset[str]] = {}
        for key in self._facts:
            if key in found:
                continue
            files = [each for each in connected(key, tied) if each in self._facts]
            topics = frozenset().union(*(self._facts[each].topics for each in files))
            found.update(dict.fromkeys(files, topics))
        return found

    def _tied(self, files: Iterable[str]) -> dict[str, set[str]]:
        """File -> the files that imports of these files, or their packages, connect with it."""
        tied: dict[str, set[str]] = {}
        for key in files:
            for other in (*self.imported_files(key), *filter(None, (self.modules.package_of(key),))):
                tied.setdefault(key, set()).add(other)
                tied.setdefault(other, set()).add(key)
        return tied

    @functools.cached_property
    def _near_metrics(self) -> set[str]:
        """The files that import torchmetrics, directly or over a few files."""
        package = torchmetrics_api.PACKAGE
        newest = {
            key for key, facts in self._facts.items() if any(ref.partition(".")[0] == package for ref in facts.imports)
        }
        found = set(newest)
        for _ in range(bounds.MOST_IMPORTS_TO_METRICS if newest else 0):
            newest = {user for key in newest for user in self._imported_by.get(key, ())} - found
            found |= newest
        return found

    @functools.cached_property
    def _reached(self) -> set[str]:
        """The files that mention an accelerator, or that such a file imports directly or transitively."""
        found = {key for key, facts in self._facts.items() if facts.accelerated}
        pending = [key for key in found if not self.is_test(key)]
        # Packages load modules, their own and those built upon them, in ways that no import shows: by registries and by
        # names that are composed at run time.
        package_of = self.modules.package_of
        packages = {name for name in map(package_of, pending) if name is not None}
        for key in self._facts:
            if key in found or self.is_test(key):
                continue
            if package_of(key) in packages or any(package_of(file) in packages for file in self.imported_files(key)):
                found.add(key)
                pending.append(key)
        while pending:
            for key in self.imported_files(pending.pop()):
                if key not in found:
                    found.add(key)
                    pending.append(key)
        return found
