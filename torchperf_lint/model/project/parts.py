"""The top-level statements of one file, and queries about them whose answers are short texts.

An answer names the statements by digests of their text. So a statement's text counts, and the order of those that are
named, but not their rows.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple, Protocol

from torchperf_lint.model.syntax.code import TOLD, Code
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.model.syntax.names import bindings
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Index
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


class _Statement(NamedTuple):
    """Top-level statements that share no line with others, nearly always one."""

    nodes: list[ast.stmt]
    row: int
    digest: str


class Parts:
    """The top-level statements of one file."""

    def __init__(self, source: Source, facts: Facts, index: Index | None = None) -> None:
        """`index` is that of the source; raises Unreadable where it cannot be parsed."""
        self._source = source
        self._facts = facts
        self._index = index_of(source.parse(), source.path) if index is None else index
        self._statements: list[_Statement] = []
        self._mentioning: dict[str, list[_Statement]] = {}
        self._binding: dict[str, list[_Statement]] = {}
        self._split(self._index.tree.body)

    def _split(self, body: list[ast.stmt]) -> None:
        groups: list[tuple[int, list[ast.stmt]]] = []
        last = 0
        for statement in body:
            row = min((each.lineno for each in getattr(statement, "decorator_list", ())), default=statement.lineno)
            if row <= last:
                groups[-1][1].append(statement)
            else:
                groups.append((row, [statement]))
            last = statement.end_lineno or row
        starts, data = self._source.line_starts, self._source.utf8
        for number, (row, nodes) in enumerate(groups):
            end = starts[groups[number + 1][0] - 1] if number + 1 < len(groups) else len(data)
            piece = data[starts[row - 1] : end].rstrip().replace(b"\r\n", b"\n")
            found = _Statement(nodes, row, digest_of(piece)[:_DIGITS])
            self._statements.append(found)
            text = piece.decode()
            for name in set(_WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text))):
                self._mentioning.setdefault(name, []).append(found)
            for name in dict.fromkeys(bindings(nodes)):
                self._binding.setdefault(name, []).append(found)

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
        """All statements; `is_in_order` compares them with those of another time."""
        return "=" + "".join(each.digest for each in self._statements)

    def mentions(self, name: str) -> str:
        """The statements that mention the name; all of them for what has none."""
        return _named(self._mentioning.get(name, ())) if name else self.whole()

    def binds(self, name: str) -> str:
        """The statements that bind the name at the top level."""
        return _named([*self._binding.get(name, ()), *self._binding.get(_ANY, ())])

    def runs(self, name: str) -> str:
        """The statements that mention the name, of functions only those of this name."""
        return _named(
            each
            for each in self._mentioning.get(name, ())
            if not all(isinstance(node, _FUNCTIONS) and node.name != name for node in each.nodes)
        )

    def kind(self, kind: str) -> str:
        """The statements of this kind."""
        return _named(each for each in self._statements if any(type(node).__name__ == kind for node in each.nodes))

    def contains(self, text: str) -> str:
        """Whether the text occurs, comments included."""
        return str(text in self._source.text)

    def classes(self) -> str:
        """The heads of all classes."""
        classes = self._index.all_classes
        heads = [[*each.node.bases, *each.node.keywords, *each.node.decorator_list] for each in classes]
        found = [[each.name, each.scope.name, *map(ast.dump, head)] for each, head in zip(classes, heads, strict=True)]
        return digest_of(repr(found).encode("utf-8", "surrogatepass"))[:_DIGITS]

    def fact(self, fact: str = "", *texts: str) -> str:
        """A fact of the file."""
        return self._facts.answer(self._index, fact, texts)

    def row(self, text: str) -> str:
        """What stands in a row: its statement, which one of those with this text it is, and the row in it."""
        row = int(text)
        before = [each for each in self._statements if each.row <= row]
        if not before:
            return "-"
        same = sum(each.digest == before[-1].digest for each in before)
        return f"{before[-1].digest} {same} {row - before[-1].row}"

    def code(self, question: str = "", *texts: str) -> str:
        """What the file's code answers to one of its questions."""
        if question not in TOLD:
            return ""
        return repr(getattr(Code(self._index, self._source.text), question)(*texts))


QUESTIONS: dict[str, int | None] = {
    "whole": 0,
    "order": 0,
    "classes": 0,
    "mentions": 1,
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
    """Whether the statements that are in both answers of `Parts.order` are in the same order."""
    one, other = ([text[at : at + _DIGITS] for at in range(1, len(text), _DIGITS)] for text in (before, after))
    both = {*one} & {*other}
    return [each for each in one if each in both] == [each for each in other if each in both]


def _named(statements: object) -> str:
    return "".join(each.digest for each in statements)  # type: ignore[attr-defined]
