"""Tables between names and files, and between files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def connected(key: str, tied: Mapping[str, set[str]]) -> set[str]:
    """The file, and the files that are tied to it over any number of others."""
    group, pending = {key}, [key]
    while pending:
        new = tied.get(pending.pop(), set()) - group
        group |= new
        pending += new
    return group


def inverted(table: Iterator[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Name -> the files that have it, in the order of the table."""
    found: dict[str, list[str]] = {}
    for key, names in table:
        for name in names:
            found.setdefault(name, []).append(key)
    return found
