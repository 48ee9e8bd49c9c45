"""Which files look up attributes by their names, as far as file symbols tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model import bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.model.project.file_symbols import FileSymbols


class Lookups:
    """The files that call `getattr`, by the name that they look up or by the shown ends of a composed one."""

    def __init__(self, facts: Mapping[str, FileSymbols]) -> None:
        self._exact: dict[str, set[str]] = {}
        self._composed: dict[tuple[str, str], set[str]] = {}
        self._unshown: set[str] = set()
        for key, symbols in facts.items():
            for pattern in symbols.lookups:
                self._add(pattern, key)
        named = (symbols.texts for symbols in facts.values()) if self._unshown else ()
        self._texts = frozenset[str]().union(*named)

    def _add(self, pattern: str, key: str) -> None:
        start, star, end = pattern.partition("*")
        end = end.rpartition("*")[2]
        if not star:
            self._exact.setdefault(pattern, set()).add(key)
        elif len(start) + len(end) >= bounds.FEWEST_LETTERS:
            self._composed.setdefault((start, end), set()).add(key)
        else:
            self._unshown.add(key)

    def files(self, name: str) -> list[str]:
        """The files that may look up an attribute of that name; none if too many may.

        A name that is composed at run time must show a few letters. One that shows none counts if some file writes this
        name as a string.
        """
        found = set(self._exact.get(name, ()))
        for (start, end), files in self._composed.items():
            if len(name) > len(start) + len(end) and name.startswith(start) and name.endswith(end):
                found |= files
        if name in self._texts:
            found |= self._unshown
        return sorted(found) if len(found) <= bounds.MOST_FILES else []
