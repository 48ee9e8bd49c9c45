"""What is read of a file's index: tables that tell a listener which names were looked up, or that all was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_K = TypeVar("_K")
_V = TypeVar("_V")
_R = TypeVar("_R")
_Answer = TypeVar("_Answer")
_Table = TypeVar("_Table", bound="ByName[Any]")

ENTRIES = ("calls", "handed", "defaults", "aliases", "held", "rebound_elsewhere", "stores")
"""The tables of an index by name."""

METHODS, ATTRIBUTES, MEMBERS = "methods", "attributes", "members"
"""The tables of a class: by the names of the class and of a member of it, the last by the name of the class alone."""

Entered = dict[str, frozenset[str]]
"""The names that a unit enters into these tables, by table."""


class Reads:
    """Is told what is read of one file, and notes nothing: for a file outside a project."""

    def mentions(self, name: str) -> None:
        """All units that mention the name were read."""

    def enters(self, table: str, name: str) -> None:
        """All units that give the name an entry in a table of the index, or of a class, were read."""

    def binds(self, name: str) -> None:
        """All units that bind the name at the top level were read."""

    def runs(self, name: str) -> None:
        """All that mentions the name and runs with the module was read."""

    def whole(self) -> None:
        """The whole file was read."""

    def kind(self, kind: str) -> None:
        """All top-level statements of this kind were read."""
        self.asks("kind", kind)

    def asks(self, question: str, *texts: str) -> None:
        """A query about the file's text was made: a method of `Parts` with its arguments."""

    is_told_all = True
    """Whether all that the last result of `followed` was made from has been told."""

    def followed(self, answer: Callable[[], _R]) -> tuple[_R, object]:
        """A result, with what was read for it."""
        return answer(), None

    def summed_up(self, answer: Callable[[], _R]) -> tuple[_R, object]:
        """A summary, with what stands for it: who asks has read its value alone."""
        return answer(), None

    def again(self, read: object) -> None:
        """What was read for an earlier result counts again."""

    def unheard(self, answer: Callable[[], _R]) -> _R:
        """A result for whose parts those who look them up count."""
        return answer()


class Told(dict[str, _V]):
    """A table by name that tells which names are looked up in it, and when it is walked over."""

    __slots__ = ()

    def _look(self, name: object) -> None:
        raise NotImplementedError

    def _walk(self) -> None:
        raise NotImplementedError

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of a name."""
        self._look(name)
        return dict.get(self, name, default)

    def __getitem__(self, name: str) -> _V:
        self._look(name)
        return dict.__getitem__(self, name)

    def __contains__(self, name: object) -> bool:
        self._look(name)
        return dict.__contains__(self, name)

    def __len__(self) -> int:
        self._walk()
        return dict.__len__(self)

    def __iter__(self) -> Iterator[str]:
        self._walk()
        return dict.__iter__(self)

    def keys(self) -> Any:
        """All names."""
        self._walk()
        return dict.keys(self)

    def values(self) -> Any:
        """All entries."""
        self._walk()
        return dict.values(self)

    def items(self) -> Any:
        """All names with their entries."""
        self._walk()
        return dict.items(self)


class ByName(Told[_V]):
    """A table of a file by name: a lookup reads the units that mention the name, a walk reads the file."""

    __slots__ = ("reads",)
    reads: Reads

    def _look(self, name: object) -> None:
        self.reads.mentions(name)  # type: ignore[arg-type]

    def _walk(self) -> None:
        self.reads.whole()


class Entries(ByName[_V]):
    """The same for a table of the index: a lookup reads the units that gave the name its entry."""

    __slots__ = ("table",)

    def __init__(self, table: str) -> None:
        super().__init__()
        self.table = table

    def _look(self, name: object) -> None:
        self.reads.enters(self.table, name)  # type: ignore[arg-type]


class AtTop(ByName[_V]):
    """The same for names that are bound at the top level: a lookup reads the units that bind the name."""

    __slots__ = ()

    def _look(self, name: object) -> None:
        self.reads.binds(name)  # type: ignore[arg-type]


class Members(Told[_V]):
    """A table of a class whose methods are units: a lookup reads those that give the name its entry, a walk all."""

    __slots__ = ("cls", "table", "tables")

    def __init__(self, tables: Tables, table: str, cls: str) -> None:
        """`tables` are those of the file, `cls` is the name of the class."""
        super().__init__()
        self.tables = tables
        self.table = table
        self.cls = cls

    def _look(self, name: object) -> None:
        self.tables.reads.enters(self.table, f"{self.cls}.{name}")

    def _walk(self) -> None:
        self.tables.reads.enters(MEMBERS, self.cls)


class Named(set[str]):
    """A set of names of the index, with the same effects."""

    __slots__ = ("reads", "table")
    reads: Reads

    def __init__(self, table: str) -> None:
        super().__init__()
        self.table = table

    def __contains__(self, name: object) -> bool:
        self.reads.enters(self.table, name)  # type: ignore[arg-type]
        return set.__contains__(self, name)

    def __len__(self) -> int:
        self.reads.whole()
        return set.__len__(self)

    def __iter__(self) -> Iterator[str]:
        self.reads.whole()
        return set.__iter__(self)

    def intersection(self, *others: Any) -> set[str]:
        """The names that are in all of these, too."""
        self.reads.whole()
        return set.intersection(self, *others)


class ByNode(dict[_K, _V]):
    """A table of a file by its nodes: who has a node has read the unit around it, a walk reads the file."""

    __slots__ = ("reads",)
    reads: Reads

    def __len__(self) -> int:
        self.reads.whole()
        return dict.__len__(self)

    def __iter__(self) -> Iterator[_K]:
        self.reads.whole()
        return dict.__iter__(self)

    def keys(self) -> Any:
        """All nodes."""
        self.reads.whole()
        return dict.keys(self)

    def values(self) -> Any:
        """All entries."""
        self.reads.whole()
        return dict.values(self)

    def items(self) -> Any:
        """All nodes with their entries."""
        self.reads.whole()
        return dict.items(self)


class Tables:
    """The tables of one file, and the results that follow from its text alone."""

    def __init__(self) -> None:
        self.reads = Reads()
        self._tables: list[Any] = []
        self._made: list[Any] = []  # those that are results
        self._noted: dict[object, tuple[Any, object]] = {}
        self._of_text: set[object] = set()  # those of `_noted` that were made from what was not told

    def tell(self, reads: Reads) -> None:
        """Let what is read from now on be told to `reads`."""
        self.reads = reads
        for table in (*self._tables, *self._made):
            table.reads = reads

    def listed(self, table: _Table) -> _Table:
        """The table by name, which from now on tells what is read of it."""
        table.reads = self.reads
        self._made.append(table)
        return table

    def empty(self, stays: Callable[[object], bool]) -> None:
        """Empty the tables, before they are filled for another text, and drop those that were made of them.

        A result that was not told what it read goes as well, if its question does not stay.
        """
        self._made.clear()
        for table in self._tables:
            table.clear()
        for question in [each for each in self._of_text if not stays(each)]:
            del self._noted[question]
            self._of_text.remove(question)

    def forget(self, is_dropped: Callable[[Any], bool], stays: Callable[[object], bool]) -> None:
        """Drop the results with such dependencies, and those whose questions do not stay."""
        for question in [each for each, (_, read) in self._noted.items() if is_dropped(read) or not stays(each)]:
            del self._noted[question]
            self._of_text.discard(question)

    def forget_all(self) -> None:
        """Drop all results."""
        self._noted, self._of_text = {}, set()

    def by_name(self, question: object, make: Callable[[], Mapping[str, _Answer]]) -> ByName[_Answer]:
        """A memoized table by name; an entry must follow from the statements that mention its name."""
        return self.note(question, lambda: self.listed(ByName(self.reads.unheard(make))))

    def note(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The memoized result of a query about the text alone; what it has read is stored with it."""
        known = self._noted.get(question)
        if known is None:
            known = self._noted[question] = self.reads.followed(answer)
            if not self.reads.is_told_all:
                self._of_text.add(question)
        else:
            self.reads.again(known[1])
        return known[0]  # type: ignore[no-any-return]

    def sum_up(self, question: object, answer: Callable[[], _Answer]) -> _Answer:
        """The memoized result of a query about the text alone, of which only the value counts as read.

        The result has to be comparable, and everything that it is made from told.
        """
        known = self._noted.get(question)
        if known is None:
            known = self._noted[question] = self.reads.summed_up(answer)
        else:
            self.reads.again(known[1])
        return known[0]  # type: ignore[no-any-return]


def members(tables: Tables, cls: str, is_split: bool, table: str) -> dict[str, Any]:
    """A table of a class; one that tells what is looked up if methods of the class are units."""
    return Members(tables, table, cls) if is_split else {}


class BoundAtTop(list[str]):
    """The names that a module binds at its top level; `tables` are those of its file."""

    def __init__(self, names: list[str], tables: Tables) -> None:
        super().__init__(names)
        self._tables = tables

    def __contains__(self, name: object) -> bool:
        self._tables.reads.binds(name)  # type: ignore[arg-type]
        return list.__contains__(self, name)

    def count(self, name: str) -> int:
        """How many times a name is bound."""
        self._tables.reads.binds(name)
        return list.count(self, name)

    def __iter__(self) -> Iterator[str]:
        self._tables.reads.whole()
        return list.__iter__(self)

    def __getitem__(self, position: Any) -> Any:
        self._tables.reads.whole()
        return list.__getitem__(self, position)
