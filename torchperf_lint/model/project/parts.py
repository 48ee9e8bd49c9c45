"""The units of one file (`syntax/units`), and queries about them whose answers are short texts.

An answer names the units by digests of their text. So a unit's text counts, and the order of those that are named, but
not their rows. A method's digest is that of its class, without methods, as well.
"""

from __future__ import annotations

import ast
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple, Protocol

from torchperf_lint.model.syntax.code import TOLD, Code
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.model.syntax.names import bindings
from torchperf_lint.model.syntax.units import units_of
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.model.syntax.units import Unit
    from torchperf_lint.syntax.source import Source

_WORD = re.compile(r"\w+")
_DIGITS = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ANY = "*"
"""Stands for all names that an `import *` binds."""


class Facts(Protocol):
    """What else a file's text shows."""

    def answer(self, index: Index, fact: str, texts: tuple[str, ...]) -> str:
        """The fact of the index's file, as text."""


class _Part(NamedTuple):
    """A unit, or what stands for a part of it, which then has no nodes and no row."""

    nodes: list[ast.stmt]
    row: int
    digest: str
    is_method: bool = False


class _Words(NamedTuple):
    """The words of a unit, the names that it binds, and what runs of a method when its class is made."""

    all: set[str]
    bound: list[str]
    at_once: tuple[_Part, set[str]] | None = None


class Parts:
    """The units of one file."""

    def __init__(self, source: Source, facts: Facts, index: Index | None = None, before: Parts | None = None) -> None:
        """`index` is that of the source, `before` has the parts of the file before some of its units changed.

        Raises Unreadable where the source cannot be parsed.
        """
        self._source = source
        self._facts = facts
        self._index = index_of(source.parse(), source.path) if index is None else index
        self._code = Code(self._index, source.text)
        self._parts: list[_Part] = []
        self._mentioning: dict[str, list[_Part]] = {}
        self._binding: dict[str, list[_Part]] = {}
        self._entering: dict[tuple[str, str], list[_Part]] = {}
        self._at_once: dict[int, tuple[_Part, set[str]]] = {}  # by the identity of the first node
        self._words: dict[int, _Words] | None = None if before is None else {}  # by row, for the next change
        known = {} if before is None else before._with_words()
        units = units_of(self._index.tree.body)
        self._begins = sorted((row, number) for number, unit in enumerate(units) for row in unit.rows)
        after = {row: following for (row, _), (following, _) in itertools.pairwise(self._begins)}
        around = ""
        for unit in units:
            found, words = known.get(id(unit.nodes[0])) or self._described(unit, after, around)
            if not found.is_method:
                around = found.digest
            if self._words is not None:
                self._words[unit.row] = words
            self._parts.append(found)
            if words.at_once is not None:
                self._at_once[id(unit.nodes[0])] = words.at_once
            for name in words.all:
                self._mentioning.setdefault(name, []).append(found)
            for name in words.bound:
                self._binding.setdefault(name, []).append(found)
            for table, names in self._index.entered[id(unit.nodes[0])].items():
                for name in names:
                    self._entering.setdefault((table, name), []).append(found)

    def _with_words(self) -> dict[int, tuple[_Part, _Words]]:
        """The parts by the identity of their first nodes, if their words are kept."""
        words = self._words or {}
        return {id(each.nodes[0]): (each, words[each.row]) for each in self._parts if each.row in words}

    def _text(self, row: int, after: int | None) -> bytes:
        """The text that begins in a row; the next begins at `after`."""
        starts, data = self._source.line_starts, self._source.utf8
        text = data[starts[row - 1] : len(data) if after is None else starts[after - 1]].rstrip()
        return text.replace(b"\r\n", b"\n")

    def _described(self, unit: Unit, after: dict[int, int], around: str) -> tuple[_Part, _Words]:
        """A unit with its words and the names that it binds; `around` is the digest of a method's class.

        `after` tells where the text behind a part of it begins.
        """
        is_method = unit.around is not None
        piece = b"\n".join(self._text(row, after.get(row)) for row in unit.rows)
        text = piece.decode()
        words = set(_WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)))
        digest = digest_of(around.encode() + piece if is_method else piece)[:_DIGITS]
        found = _Part(unit.nodes, unit.row, digest, is_method)
        bound = [] if is_method else list(dict.fromkeys(bindings(unit.nodes)))
        return found, _Words(words, bound, _at_once(unit.nodes[0], around) if is_method else None)

    def answer(self, question: str, *texts: str) -> str:
        """The answer to a query, which may come from a file; "" where there is no such query."""
        if question not in QUESTIONS or QUESTIONS[question] not in (None, len(texts)):
            return ""
        answer: str = getattr(self, question)(*texts)
        return answer

    def whole(self) -> str:
        """The whole text."""
        return digest_of(self._source.utf8.replace(b"\r\n", b"\n"))

    def order(self) -> str:
        """All units; `is_in_order` compares them with those of another time."""
        return "=" + "".join(each.digest for each in self._parts)

    def mentions(self, name: str) -> str:
        """The units that mention the name; all of them for what has none."""
        return _named(self._mentioning.get(name, ())) if name else self.whole()

    def enters(self, table: str, name: str) -> str:
        """The units that give the name an entry in a table of the index, or of a class."""
        return _named(self._entering.get((table, name), ()))

    def binds(self, name: str) -> str:
        """The units that bind the name at the top level."""
        return _named(self._binds(name))

    def _binds(self, name: str) -> list[_Part]:
        return [*self._binding.get(name, ()), *self._binding.get(_ANY, ())]

    def runs(self, name: str) -> str:
        """What mentions the name and runs with the module: all but the bodies of functions, if not of this name."""
        return _named(self._runs(name))

    def _runs(self, name: str) -> list[_Part]:
        found = []
        for each in self._mentioning.get(name, ()):
            at_once = self._at_once.get(id(each.nodes[0]))
            if at_once is not None:
                found += [at_once[0]] if name in at_once[1] else []
            elif not all(isinstance(node, _FUNCTIONS) and node.name != name for node in each.nodes):
                found.append(each)
        return found

    def kind(self, kind: str) -> str:
        """The statements of this kind at the top level."""
        return _named(self._kind(kind))

    def _kind(self, kind: str) -> list[_Part]:
        tops = (each for each in self._parts if not each.is_method)
        return [each for each in tops if any(type(node).__name__ == kind for node in each.nodes)]

    def placed(self, question: str, *texts: str) -> object:
        """The units that the answer names, with their nodes and rows; the answer itself where it names none.

        The order is not looked at: the nodes that stay after a change are in their order.
        """
        match question, texts:
            case ("order", ()):
                return None
            case ("mentions", (name,)) if name:
                return self._mentioning.get(name, [])
            case ("enters", (table, name)):
                return self._entering.get((table, name), [])
            case ("binds", (name,)):
                return self._binds(name)
            case ("runs", (name,)):
                return self._runs(name)
            case ("kind", (kind,)):
                return self._kind(kind)
        return self.answer(question, *texts)

    def contains(self, text: str) -> str:
        """Whether the text occurs, comments included."""
        return str(text in self._source.text)

    def classes(self) -> str:
        """The heads of all classes."""
        classes = self._index.all_classes
        heads = [[*each.head.bases, *each.head.keywords, *each.decorators] for each in classes]
        found = [[each.name, each.scope.name, *map(ast.dump, head)] for each, head in zip(classes, heads, strict=True)]
        return digest_of(repr(found).encode("utf-8", "surrogatepass"))[:_DIGITS]

    def fact(self, fact: str = "", *texts: str) -> str:
        """A fact of the file."""
        return self._facts.answer(self._index, fact, texts)

    def row(self, text: str) -> str:
        """What stands in a row: its unit, which one of those with this text it is, and the row in a part of it."""
        row = int(text)
        before = [each for each in self._begins if each[0] <= row]
        if not before:
            return "-"
        begin, number = before[-1]
        digest = self._parts[number].digest
        same = sum(each.digest == digest for each in self._parts[: number + 1])
        part = sum(each[1] == number for each in before)
        return f"{digest} {same} {part} {row - begin}"

    def code(self, question: str = "", *texts: str) -> str:
        """What the file's code answers to one of its questions."""
        if question not in TOLD:
            return ""
        return repr(getattr(self._code, question)(*texts))


BY_STATEMENTS = frozenset({"order", "mentions", "enters", "binds", "runs", "kind"})
"""The queries whose answers name units."""

QUESTIONS: dict[str, int | None] = {
    "whole": 0,
    "order": 0,
    "classes": 0,
    "mentions": 1,
    "enters": 2,
    "binds": 1,
    "runs": 1,
    "row": 1,
    "kind": 1,
    "contains": 1,
    "code": None,
    "fact": None,
}
"""The queries, each with the number of its arguments, None for any."""


def is_in_order(before: str, after: str) -> bool:
    """Whether the units that are in both answers of `Parts.order` are in the same order."""
    one, other = ([text[at : at + _DIGITS] for at in range(1, len(text), _DIGITS)] for text in (before, after))
    both = {*one} & {*other}
    return [each for each in one if each in both] == [each for each in other if each in both]


def _at_once(method: ast.stmt, around: str) -> tuple[_Part, set[str]]:
    """What runs of a method when its class is made, and its words: `around` is the digest of the class."""
    assert isinstance(method, _FUNCTIONS)
    parts: list[ast.AST] = [method.args, *method.decorator_list, *([method.returns] if method.returns else [])]
    text = " ".join([around, method.name, *map(ast.dump, parts)])
    return _Part([], 0, digest_of(text.encode("utf-8", "surrogatepass"))[:_DIGITS]), set(_WORD.findall(text))


def _named(statements: object) -> str:
    return "".join(each.digest for each in statements)  # type: ignore[attr-defined]
