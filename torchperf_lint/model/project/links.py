"""What facts tell of all files together: who imports, calls and hands on what, before any of them is parsed."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.model.project.linking import Modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_lint.model.project.facts import Facts

MOST_HOPS = 20
"""Re-exports of one name are followed no further."""

HOPS_TO_METRICS = 3
"""Over so many imports a file may have its metrics from one that imports torchmetrics."""

_TESTS = re.compile(r"(^|/)(tests?|testing|benchmarks?|docs?)/|(^|/)(test_[^/]*|[^/]*_test|conftest|setup)\.py$")


class Links:
    """Tables of a project, each made when it is first asked for; they hold as long as no file's facts change."""

    def __init__(self, facts: Mapping[str, Facts], root: str) -> None:
        self._facts = facts
        self._root = root
        self.modules = Modules(facts, root)
        self._links_of: dict[str, dict[str, str]] = {}
        self._offered: dict[str, set[str]] = {}
        self._imported: dict[str, set[str]] = {}

    def module(self, ref: str, key: str) -> tuple[str, str] | None:
        """The file of a module that the file at `key` imports, and the module's absolute name; None if it has none."""
        name = self.modules.absolute(ref, key)
        place = self.modules.split(name, key)
        return None if place is None or place[1] else (place[0], name)

    def link(self, name: str, key: str) -> str | None:
        """What a name that the file imports stands for there, or an empty text; None if it imports no such name."""
        links = self._links_of.get(key)
        if links is None:
            links = self._links_of[key] = dict(self._facts[key].links)
        return links.get(name)

    def stars(self, key: str) -> list[str]:
        """The modules that the file imports whole."""
        refs = (ref for ref in self._facts[key].imports if ref.endswith("*"))
        return [ref[:-1] if ref.strip(".") == "*" else ref[:-2] for ref in refs]

    def may_offer(self, key: str, name: str) -> bool:
        """Whether the name may be had from the file: its facts tell that of most names before it has to be parsed."""
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
            for module in self.stars(file):
                found |= self.modules.last_names  # modules of a package come with the package
                starred = self.module(module, file)
                if starred is not None and starred[0] not in files:
                    files.append(starred[0])
        return found

    def imported_files(self, key: str) -> set[str]:
        """The files that the file imports, or something of."""
        known = self._imported.get(key)
        if known is None:
            places = (self.modules.split(self.modules.absolute(ref, key), key) for ref in self._facts[key].imports)
            known = self._imported[key] = {place[0] for place in places if place is not None}
        return known

    def is_test(self, key: str) -> bool:
        """Whether what the file calls tells nothing of how a program runs."""
        return _TESTS.search(key.removeprefix(self._root)) is not None

    @functools.cached_property
    def imported_by(self) -> dict[str, list[str]]:
        """File -> the files with an import of it, or of a name in it."""
        return _inverted((key, sorted(self.imported_files(key))) for key in sorted(self._facts))

    def may_lead_to(self, home: str, ref: str, name: str, key: str) -> bool:
        """Whether facts allow that what is imported is in the file `home`, or that a module has it by that name."""
        for _ in range(MOST_HOPS):
            place = self.modules.split(self.modules.absolute(ref, key), key)
            if place is None:
                return False
            file, rest = place
            first, dot, more = (rest or name).partition(".")
            link = self.link(first, file)
            if not link:
                if link is None and self.stars(file):
                    return True
                return file == home or link is not None or first not in self._facts[file].bound
            ref, key = f"{link}{dot}{more}", file
        return True

    @functools.cached_property
    def calling(self) -> dict[str, list[str]]:
        """Name -> the files that call something of that name."""
        return _inverted((key, facts.called) for key, facts in sorted(self._facts.items()))

    @functools.cached_property
    def renamed(self) -> dict[str, list[str]]:
        """Name -> the other names that files import it under."""
        pairs = sorted({pair for facts in self._facts.values() for pair in facts.renamed})
        return _inverted((new, [old]) for old, new in pairs)

    @functools.cached_property
    def new_names(self) -> set[str]:
        """The names that some file gives to what it imports."""
        return {new for facts in self._facts.values() for _, new in facts.renamed}

    @functools.cached_property
    def importing(self) -> dict[str, list[str]]:
        """Name -> the files that import something of that name."""
        return _inverted(
            (key, dict.fromkeys(ref.rpartition(".")[2] for ref in facts.imports))
            for key, facts in sorted(self._facts.items())
        )

    @functools.cached_property
    def handing(self) -> dict[str, list[str]]:
        """Name -> the files that import something of that name and hand it on."""
        return _inverted((key, sorted(facts.handed)) for key, facts in sorted(self._facts.items()))

    @functools.cached_property
    def step_names(self) -> frozenset[str]:
        """Names of functions anywhere that make a training step."""
        return frozenset().union(*(facts.steps for facts in self._facts.values()))

    @functools.cached_property
    def near_metrics(self) -> set[str]:
        """The files that import torchmetrics, or something of files that do."""
        package = torchmetrics_api.PACKAGE
        newest = {
            key for key, facts in self._facts.items() if any(ref.partition(".")[0] == package for ref in facts.imports)
        }
        found = set(newest)
        for _ in range(HOPS_TO_METRICS if newest else 0):
            newest = {user for key in newest for user in self.imported_by.get(key, ())} - found
            found |= newest
        return found

    @functools.cached_property
    def reached(self) -> set[str]:
        """The files that speak of an accelerator, or that a file which does imports (over others, or by itself)."""
        found = {key for key, facts in self._facts.items() if facts.accelerated}
        pending = [key for key in found if not self.is_test(key)]
        # Packages bring modules in, their own and those built upon them, in ways that no import shows: by registries
        # and by names put together.
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


def _inverted(table: Iterator[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, names in table:
        for name in names:
            found.setdefault(name, []).append(key)
    return found
