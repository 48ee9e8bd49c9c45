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
from torchperf_lint.model.syntax.names import bindings, grouped
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.syntax.source import Source

_WORD = re.compile(r"\w+")
_DIGITS = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DOES_MORE = (ast.Call, ast.Await, ast.NamedExpr, ast.For, ast.While, ast.With, ast.Try, ast.ClassDef, *_FUNCTIONS)
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


class _Words(NamedTuple):
    """The words of some statements, the names that they bind, and what runs of a class when it is defined."""

    all: set[str]
    bound: list[str]
    at_once: tuple[_Statement, set[str]] | None = None


class Parts:
    """The top-level statements of one file."""

    def __init__(self, source: Source, facts: Facts, index: Index | None = None, before: Parts | None = None) -> None:
        """`index` is that of the source, `before` has the parts of the file before some of its statements changed.

        Raises Unreadable where the source cannot be parsed.
        """
        self._source = source
        self._facts = facts
        self._index = index_of(source.parse(), source.path) if index is None else index
        self._code = Code(self._index, source.text)
        self._statements: list[_Statement] = []
        self._mentioning: dict[str, list[_Statement]] = {}
        self._binding: dict[str, list[_Statement]] = {}
        self._entering: dict[tuple[str, str], list[_Statement]] = {}
        self._at_once: dict[int, tuple[_Statement, set[str]]] = {}  # by the identity of the first node
        self._words: dict[int, _Words] | None = None if before is None else {}  # by row, for the next change
        known = {} if before is None else before._with_words()
        rows = grouped(self._index.tree.body)
        for number, (row, nodes) in enumerate(rows):
            after = rows[number + 1][0] if number + 1 < len(rows) else None
            found, words = known.get(id(nodes[0])) or self._statement(row, nodes, after)
            if self._words is not None:
                self._words[row] = words
            self._statements.append(found)
            if words.at_once is not None:
                self._at_once[id(nodes[0])] = words.at_once
            for name in words.all:
                self._mentioning.setdefault(name, []).append(found)
            for name in words.bound:
                self._binding.setdefault(name, []).append(found)
            for table, names in self._index.entered[id(nodes[0])].items():
                for name in names:
                    self._entering.setdefault((table, name), []).append(found)

    def _with_words(self) -> dict[int, tuple[_Statement, _Words]]:
        """The statements by the identity of their first nodes, if their words are kept."""
        words = self._words or {}
        return {id(each.nodes[0]): (each, words[each.row]) for each in self._statements if each.row in words}

    def _statement(self, row: int, nodes: list[ast.stmt], after: int | None) -> tuple[_Statement, _Words]:
        """The statements that begin in a row, with their words and the names they bind; the next begin at `after`."""
        starts, data = self._source.line_starts, self._source.utf8
        piece = data[starts[row - 1] : len(data) if after is None else starts[after - 1]].rstrip()
        piece = piece.replace(b"\r\n", b"\n")
        text = piece.decode()
        words = set(_WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)))
        found = _Statement(nodes, row, digest_of(piece)[:_DIGITS])
        return found, _Words(words, list(dict.fromkeys(bindings(nodes))), _at_once(nodes))

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

    def enters(self, table: str, name: str) -> str:
        """The statements that give the name an entry in a table of the index."""
        return _named(self._entering.get((table, name), ()))

    def binds(self, name: str) -> str:
        """The statements that bind the name at the top level."""
        return _named(self._binds(name))

    def _binds(self, name: str) -> list[_Statement]:
        return [*self._binding.get(name, ()), *self._binding.get(_ANY, ())]

    def runs(self, name: str) -> str:
        """What mentions the name and runs with the module: all but the bodies of functions, if not of this name."""
        return _named(self._runs(name))

    def _runs(self, name: str) -> list[_Statement]:
        found = []
        for each in self._mentioning.get(name, ()):
            at_once = self._at_once.get(id(each.nodes[0]))
            if at_once is not None and name not in [node.name for node in each.nodes if isinstance(node, ast.ClassDef)]:
                found += [at_once[0]] if name in at_once[1] else []
            elif not all(isinstance(node, _FUNCTIONS) and node.name != name for node in each.nodes):
                found.append(each)
        return found

    def kind(self, kind: str) -> str:
        """The statements of this kind."""
        return _named(self._kind(kind))

    def _kind(self, kind: str) -> list[_Statement]:
        return [each for each in self._statements if any(type(node).__name__ == kind for node in each.nodes)]

    def placed(self, question: str, *texts: str) -> object:
        """The statements that the answer names, with their nodes and rows; the answer itself where it names none.

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
        return repr(getattr(self._code, question)(*texts))


BY_STATEMENTS = frozenset({"order", "mentions", "enters", "binds", "runs", "kind"})
"""The queries whose answers name statements."""

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
    """Whether the statements that are in both answers of `Parts.order` are in the same order."""
    one, other = ([text[at : at + _DIGITS] for at in range(1, len(text), _DIGITS)] for text in (before, after))
    both = {*one} & {*other}
    return [each for each in one if each in both] == [each for each in other if each in both]


def _at_once(nodes: list[ast.stmt]) -> tuple[_Statement, set[str]] | None:
    """What runs of a class when it is defined, and its words; None if it is more than definitions and plain values.

    It stands for the class where the class itself is not asked for, so it has no nodes and no row.
    """
    (node,) = nodes if len(nodes) == 1 else (None,)
    if not isinstance(node, ast.ClassDef):
        return None
    parts: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list]
    names = [node.name]
    for each in node.body:
        if isinstance(each, _FUNCTIONS):
            names.append(each.name)
            parts += [each.args, *each.decorator_list, *([each.returns] if each.returns else [])]
        elif not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
            parts.append(each)
    if any(isinstance(inner, _DOES_MORE) for part in parts for inner in ast.walk(part)):
        return None
    text = " ".join([*names, *map(ast.dump, parts)])
    return _Statement([], 0, digest_of(text.encode("utf-8", "surrogatepass"))[:_DIGITS]), set(_WORD.findall(text))


def _named(statements: object) -> str:
    return "".join(each.digest for each in statements)  # type: ignore[attr-defined]
