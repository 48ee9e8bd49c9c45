"""The dependencies of a result on the project, as a graph: queries about files' texts and about all files' symbols.

Every memoized result stores a node. Its children are the queries that were made for it and the nodes of the results
that it used, so a cache hit adds one child to the node of the current query. A report's dependencies are all queries
that its node leads to.

The queries about a file's text are methods of `Parts`: which units mention a name, which bind one, or, where nothing
finer is known, the whole text. What depends on such a query depends on nothing else of that file.
"""

from __future__ import annotations

import secrets
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from torchperf_lint.model.syntax.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from torchperf_lint.model.project.parts import Parts

_Q = TypeVar("_Q")
_R = TypeVar("_R")

Question = tuple[str, ...]
"""A method of SymbolIndex, or of Parts after a file's key, by name, and its arguments."""

OF_FILE = "file "
"""Begins the name of a method of Parts in a Question; the first argument is then the file's key."""


def file_of(question: Question) -> str | None:
    """The key of the file whose text is asked for; None of a query about all files' symbols."""
    return question[1] if question[0].startswith(OF_FILE) else None


class Dependencies(NamedTuple):
    """The dependencies of one file's report: plain data that crosses processes.

    `asked` are the numbers of queries in the recorder with this `mark`; `new` are the queries that it has not reported
    before, with their numbers, and the answers of those about files.
    """

    mark: str
    asked: tuple[int, ...]
    new: tuple[tuple[int, Question, str | None], ...] = ()


class Node:
    """What a result depends on; a node without children is a query, or nothing."""

    __slots__ = ("bad", "children", "round")

    def __init__(self, children: tuple[Node, ...] = ()) -> None:
        self.children = children
        self.round = 0  # when it was visited last
        self.bad = False  # as of that visit


class _Query(Node):
    __slots__ = ("answer", "file", "is_reported", "number", "question")

    def __init__(self, question: Question, number: int) -> None:
        super().__init__()
        self.question = question
        self.file = file_of(question)
        self.number = number
        self.answer: str | None = None  # of a query about a file's text, once it was needed
        self.is_reported = False


class Summary(Node):
    """What a summary of a file's text depends on, with its value: who asked depends on the value alone."""

    __slots__ = ("answer", "value")

    def __init__(self, children: tuple[Node, ...], value: object, answer: Callable[[], object]) -> None:
        super().__init__(children)
        self.value = value
        self.answer = answer


NOTHING = Node()


class Forgetful(Protocol):
    """A memo table that can drop results by their dependencies."""

    def forget(self, is_dropped: Callable[[Node], bool]) -> None:
        """Drop the results with such dependencies."""


class Memo(dict[_Q, tuple[_R, Node]]):
    """Results of queries, each with its dependencies."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]  # by identity: a recorder keeps a set of its tables

    def forget(self, is_dropped: Callable[[Node], bool]) -> None:
        """Drop the results with such dependencies."""
        for question in [question for question, (_, node) in self.items() if is_dropped(node)]:
            del self[question]


class DependencyRecorder:
    """Records the dependencies of the result that is being computed, and knows all memo tables."""

    def __init__(self, parts_of: Callable[[str], Parts | None] = lambda key: None) -> None:
        """`parts_of` gives the parts of a file's text."""
        self.here: set[Node] = set()
        self.certain = True  # False after an observation that cannot be repeated later: a file changed since the scan
        self.keeps = False  # whether dependencies will be asked for: answers about trees are noted before these go
        self._parts_of = parts_of
        self._mark = ""
        self._queries: dict[Question, _Query] = {}
        self._unanswered: list[_Query] = []
        self._round = 0
        self._renews = False
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
        """Drop all results that depend on these files' texts, from all tables."""
        files = set(keys)
        self.forget_where({question for question, query in self._queries.items() if query.file in files})

    def forget_where(self, changed: Container[Question], *, renews: bool = False) -> Callable[[Node], bool]:
        """Drop all results that depend on these queries, from all tables; returns whether another one does.

        `renews`: a summary is made again, and counts as depending on them only where it has another value. Nothing that
        it is made from may be kept from before.
        """
        is_bad = self.resting_on(changed, renews=renews)
        for table in list(self._tables):
            table.forget(is_bad)
        return is_bad

    def resting_on(self, changed: Container[Question], *, renews: bool = False) -> Callable[[Node], bool]:
        """Whether a result depends on these queries, as for `forget_where`; holds until this is asked again."""
        self._round += 1
        self._renews = renews
        for question, query in self._queries.items():
            query.round = self._round
            query.bad = question in changed
        return self._is_bad

    def questions(self, key: str | None) -> list[Question]:
        """The queries so far about the text of a file, or, without a key, about all files' symbols."""
        return [question for question, query in self._queries.items() if query.file == key]

    def start_again(self) -> None:
        """Forget all queries; to be called where no result is left that depends on one."""
        self.here = set()
        self._queries, self._unanswered = {}, []

    def _is_bad(self, node: Node) -> bool:
        """Whether the node leads to a bad query; the nodes that are visited remember it for this round."""
        now, pending = self._round, [node]
        while pending:
            last = pending[-1]
            if last.round == now:
                pending.pop()
                continue
            waiting = [each for each in last.children if each.round != now]
            if waiting:
                pending += waiting
                continue
            last.round, last.bad = now, any(each.bad for each in last.children)
            if last.bad and self._renews and isinstance(last, Summary):
                last.bad = self._has_changed(last)
            pending.pop()
        return node.bad

    def _has_changed(self, summary: Summary) -> bool:
        """Make a summary again; returns whether it has another value."""
        before, self.here = self.here, set()
        try:
            value = summary.answer()
            summary.children = (node_of(self.here),)
        finally:
            self.here = before
        same = value == summary.value
        summary.value = value
        return not same

    def asked(self, question: Question) -> None:
        """Record a query."""
        self.here.add(self.query(question))

    def query(self, question: Question) -> Node:
        """The node of a query."""
        query = self._queries.get(question)
        if query is None:
            query = self._queries[question] = _Query(question, len(self._queries))
            self._unanswered.append(query)
        return query

    def reads(self, key: str) -> FileReads:
        """Takes down what is read of the file."""
        return FileReads(self, key)

    def kept(self, known: Memo[_Q, _R], question: _Q, answer: Callable[[], _R]) -> _R:
        """The memoized result of a query; its dependencies are stored with it."""
        found = known.get(question)
        if found is None:
            found = known[question] = self.followed(answer)
        else:
            self.here.add(found[1])
        return found[0]

    def followed(self, answer: Callable[[], _R]) -> tuple[_R, Node]:
        """A result and its own dependencies, which are added to those of the surrounding query."""
        before, self.here = self.here, set()
        try:
            value = answer()
            node = node_of(self.here)
        except BaseException:
            before |= self.here
            raise
        finally:
            self.here = before
        before.add(node)
        return value, node

    def summed_up(self, answer: Callable[[], _R]) -> tuple[_R, Node]:
        """A summary of a file's text and its node, which is added to those of the surrounding query."""
        before, self.here = self.here, set()
        try:
            value = answer()
            node = Summary((node_of(self.here),), value, answer)
        except BaseException:
            before |= self.here
            raise
        finally:
            self.here = before
        before.add(node)
        return value, node

    def begin(self, *, keeps: bool = True) -> None:
        """Begin the report of a file; `keeps`: its dependencies will be asked for."""
        self.here = set()
        self.keeps = keeps

    def settle(self) -> None:
        """Note the answers of all queries about files so far, before their trees go."""
        before, self.here = self.here, set()
        for query in self._unanswered:
            self._answer(query)
        self._unanswered = []
        self.here = before

    def _answer(self, query: _Query) -> None:
        if query.answer is None and query.file is not None:
            kind, key, *texts = query.question
            parts = self._parts_of(key)
            query.answer = "" if parts is None else parts.answer(kind.removeprefix(OF_FILE), *texts)

    def dependencies(self, own: str = "") -> Dependencies | None:
        """All dependencies since `begin`, but for those on the file `own`; None if they cannot be checked later."""
        if not self.certain:
            return None
        self._round += 1
        now, asked, pending = self._round, list[_Query](), list(self.here)
        while pending:
            node = pending.pop()
            if node.round != now:
                node.round = now
                pending += node.children
                if isinstance(node, _Query) and node.file != own:
                    asked.append(node)
        new = [query for query in asked if not query.is_reported]
        before, self.here = self.here, set()
        for query in new:
            self._answer(query)
            query.is_reported = True
        self.here = before
        self._mark = self._mark or secrets.token_hex(8)
        told = tuple((each.number, each.question, each.answer) for each in new)
        return Dependencies(self._mark, tuple(sorted(each.number for each in asked)), told)


class FileReads(Reads):
    """Takes down what is read of one file of a project."""

    def __init__(self, recorder: DependencyRecorder, key: str) -> None:
        self._recorder = recorder
        self._key = key
        self._mentioned: dict[str, Node] = {}
        self._entered: dict[tuple[str, str], Node] = {}
        self._bound: dict[str, Node] = {}
        self._run: dict[str, Node] = {}
        self._all: Node | None = None
        self._is_told = True

    def mentions(self, name: str) -> None:
        """Implements Reads."""
        known = self._mentioned.get(name)
        if known is None:
            known = self._mentioned[name] = self._query("mentions", name)
        self._recorder.here.add(known)

    def enters(self, table: str, name: str) -> None:
        """Implements Reads."""
        known = self._entered.get((table, name))
        if known is None:
            known = self._entered[table, name] = self._query("enters", table, name)
        self._recorder.here.add(known)

    def binds(self, name: str) -> None:
        """Implements Reads."""
        known = self._bound.get(name)
        if known is None:
            known = self._bound[name] = self._query("binds", name)
        self._recorder.here.add(known)

    def runs(self, name: str) -> None:
        """Implements Reads."""
        known = self._run.get(name)
        if known is None:
            known = self._run[name] = self._query("runs", name)
        self._recorder.here.add(known)

    def whole(self) -> None:
        """Implements Reads."""
        if self._all is None:
            self._all = self._query("whole")
        self._recorder.here.add(self._all)

    def asks(self, question: str, *texts: str) -> None:
        """Implements Reads."""
        self._recorder.asked((OF_FILE + question, self._key, *texts))

    def followed(self, answer: Callable[[], _R]) -> tuple[_R, object]:
        """Implements Reads."""
        around, self._is_told = self._is_told, True
        try:
            found = self._recorder.followed(answer)
        finally:
            self.is_told_all, self._is_told = self._is_told, around
        return found

    def summed_up(self, answer: Callable[[], _R]) -> tuple[_R, object]:
        """Implements Reads."""
        return self._recorder.summed_up(answer)

    def again(self, read: object) -> None:
        """Implements Reads."""
        self._recorder.here.add(read)  # type: ignore[arg-type]

    def unheard(self, answer: Callable[[], _R]) -> _R:
        """Implements Reads."""
        self._is_told = False
        before, self._recorder.here = self._recorder.here, set()
        try:
            return answer()
        finally:
            self._recorder.here = before

    def _query(self, question: str, *texts: str) -> Node:
        return self._recorder.query((OF_FILE + question, self._key, *texts))


def node_of(children: Iterable[Node]) -> Node:
    """A node with these children."""
    found = tuple(children)
    if len(found) == 1:
        return found[0]
    return Node(found) if found else NOTHING
