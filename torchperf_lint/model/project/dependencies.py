"""The dependencies of a result on the project: files that were opened, and queries about all files' symbols.

Every memoized result stores its dependencies; a cache hit adds them to those of the current query. Dependencies are
recorded per file: a dependency on a file includes all queries that were ever made for that file. That is more than a
result needs, and never less.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Q = TypeVar("_Q")
_R = TypeVar("_R")

Question = tuple[str, ...]
"""A method of SymbolIndex by name, and its arguments."""

_QUERIED, _CONTENT = 1, 2  # bits of a file: its queries count; its content counts
_OPENED = _QUERIED | _CONTENT


class Dependencies(NamedTuple):
    """The dependencies of one file's report, besides the file itself: plain data that crosses processes.

    `opened` are files whose content counts, `asked` are files of which only the queries made for them count;
    `questions` are the queries not reported before, each with the file for which it was made.
    """

    opened: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    questions: tuple[tuple[str, Question], ...] = ()


class Forgetful(Protocol):
    """A memo table that can drop results by their dependencies."""

    def forget(self, contents: int) -> None:
        """Drop all results whose dependencies have one of these bits."""


class Memo(dict[_Q, tuple[_R, int]]):
    """Results of queries, each with its dependencies."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]  # by identity: a recorder keeps a set of its tables

    def forget(self, contents: int) -> None:
        """Drop all results whose dependencies have one of these bits."""
        for question in [question for question, (_, bits) in self.items() if bits & contents]:
            del self[question]


class DependencyRecorder:
    """Records the dependencies of the result that is being computed, and knows all memo tables."""

    def __init__(self) -> None:
        self.here = 0  # a bit set, two bits for each file
        self.certain = True  # False after an observation that cannot be repeated later: a file changed since the scan
        self._numbers: dict[str, int] = {}
        self._questions: set[tuple[str, Question]] = set()
        self._unreported: list[tuple[str, Question]] = []
        self._tables: weakref.WeakSet[Forgetful] = weakref.WeakSet()

    def memo(self) -> Memo[Any, Any]:
        """A new memo table, for `kept`."""
        table: Memo[Any, Any] = Memo()
        self.add(table)
        return table

    def add(self, table: Forgetful) -> None:
        """Add a memo table of another kind."""
        self._tables.add(table)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop all results that depend on the content of these files, from all tables."""
        contents = 0
        for key in keys:
            if key in self._numbers:
                contents |= _CONTENT << 2 * self._numbers[key]
        for table in list(self._tables):
            table.forget(contents)

    def opened(self, key: str) -> None:
        """Record that the content of a file counts."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self.here |= _OPENED << 2 * number

    def asked(self, key: str, question: Question) -> None:
        """Record a query that was made for a file."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self.here |= _QUERIED << 2 * number
        if (key, question) not in self._questions:
            self._questions.add((key, question))
            self._unreported.append((key, question))

    def kept(self, known: Memo[_Q, _R], question: _Q, answer: Callable[[], _R]) -> _R:
        """The memoized result of a query; its dependencies are stored with it."""
        found = known.get(question)
        if found is None:
            value, recorder = self.followed(answer)
            known[question] = value, recorder
            return value
        self.here |= found[1]
        return found[0]

    def followed(self, answer: Callable[[], _R]) -> tuple[_R, int]:
        """A result and its own dependencies, which are added to those of the surrounding query."""
        before, self.here = self.here, 0
        try:
            value = answer()
            return value, self.here
        finally:
            self.here |= before

    def begin(self) -> None:
        """Begin the report of a file."""
        self.here = 0

    def dependencies(self) -> Dependencies | None:
        """All dependencies since `begin`; None if they cannot be checked later."""
        if not self.certain:
            return None
        keys = list(self._numbers)
        opened: list[str] = []
        asked: list[str] = []
        bits, number = self.here, 0
        while bits:
            if bits & 3:
                (opened if bits & 3 == _OPENED else asked).append(keys[number])
            bits >>= 2
            number += 1
        questions, self._unreported = tuple(self._unreported), []
        return Dependencies(tuple(opened), tuple(asked), questions)
