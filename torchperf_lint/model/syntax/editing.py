"""A file whose text changes: only the top-level statements that have changed are parsed and indexed again.

The other statements keep their nodes, functions and classes, if neither their text, nor their rows, nor their places
among the statements have changed. The index stays the same object.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.index import Index
from torchperf_lint.model.syntax.indexing import Fragment, assemble
from torchperf_lint.model.syntax.names import grouped

if TYPE_CHECKING:
    from torchperf_lint.syntax.source import Source


class _Piece(NamedTuple):
    """Top-level statements that share rows: nearly always one."""

    row: int
    nodes: list[ast.stmt]
    fragment: Fragment


class EditedFile:
    """The index of a file with its text."""

    def __init__(self, source: Source) -> None:
        """Raises Unreadable where the source cannot be parsed."""
        body = source.parse().body
        self.source = source
        self.index = Index(ast.Module([], []), source.path)
        self.replaced = 0  # bytes of statements that are no more
        self._gone: list[_Piece] = []  # kept, since results may be known by the identity of what is in them
        self._pieces = self._made_of(body)
        self._assemble()

    def change(self, source: Source) -> None:
        """The file has this text now; raises Unreadable, and changes nothing, where it cannot be parsed."""
        before, after = self._unchanged(source)
        kept, found = self._pieces, self._parsed(source, before, after)
        if found is None and after:
            after = 0
            found = self._parsed(source, before, 0)
        if found is None:
            before, found = 0, source.parse().body
        last = len(kept) - after
        self._gone += kept[before:last]
        self.replaced += self._end(last - 1) - self._begin(before) if before < last else 0
        self.source = source
        self._pieces = [*kept[:before], *self._made_of(found), *kept[last:]]
        self._assemble()

    def _made_of(self, body: list[ast.stmt]) -> list[_Piece]:
        return [_Piece(row, nodes, Fragment(self.index, nodes)) for row, nodes in grouped(body)]

    def _assemble(self) -> None:
        body = [node for piece in self._pieces for node in piece.nodes]
        fragments = [piece.fragment for piece in self._pieces]
        self.index.reads.unheard(lambda: assemble(self.index, body, fragments))

    def _begin(self, number: int) -> int:
        """The byte where a piece begins."""
        return self.source.line_starts[self._pieces[number].row - 1]

    def _end(self, number: int) -> int:
        """The byte where the next piece begins."""
        return self._begin(number + 1) if number + 1 < len(self._pieces) else len(self.source.utf8)

    def _unchanged(self, source: Source) -> tuple[int, int]:
        """How many pieces at the beginning are the same in a new text, and how many at the end."""
        old, new, count = self.source.utf8, source.utf8, len(self._pieces)
        same = _alike(old, new)
        before = 0
        while before < count and self._end(before) <= same and _begins_row(source, self._end(before)):
            before += 1
        most = min(len(old), len(new)) - (self._end(before - 1) if before else 0)
        same, grown, after = min(_alike_at_end(old, new), most), len(new) - len(old), 0
        while before + after < count and len(old) - self._begin(count - after - 1) <= same:
            after += 1
        while after:
            number = count - after
            begin = self._begin(number) + grown
            if _begins_row(source, begin):
                return before, after if source.row(begin) == self._pieces[number].row else 0
            after -= 1
        return before, 0

    def _parsed(self, source: Source, before: int, after: int) -> list[ast.stmt] | None:
        """The statements between pieces that are the same, if they can be parsed alone.

        None if not, or if those after them would have other places among the statements.
        """
        count = len(self._pieces)
        begin = self._end(before - 1) if before else 0
        end = self._begin(count - after) + len(source.utf8) - len(self.source.utf8) if after else len(source.utf8)
        text = source.utf8[begin:end]
        if _goes_on(source.utf8[:begin]) or (after and _goes_on(text)):
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse("\n" * (source.row(begin) - 1) + text.decode()).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        replaced = sum(len(piece.nodes) for piece in self._pieces[before : count - after])
        return None if after and len(body) != replaced else body


def _alike(one: bytes, other: bytes) -> int:
    """How many bytes are the same at the beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _alike_at_end(one: bytes, other: bytes) -> int:
    """How many bytes are the same at the end."""
    return _alike(one[::-1], other[::-1])


def _begins_row(source: Source, offset: int) -> bool:
    """Whether a row begins there, or the text ends."""
    row = source.row(offset)
    return source.line_starts[row - 1] == offset or offset == len(source.utf8)


def _goes_on(text: bytes) -> bool:
    """Whether a text ends with a row that the next one continues."""
    return text.rstrip().endswith(b"\\")
