"""A file whose text changes: only the units that have changed are parsed and indexed again.

The other units keep their nodes, functions and classes, if neither their text, nor their rows, nor their places among
the statements have changed. The index stays the same object. Where nothing but methods of one class have changed, these
alone are parsed; else the top-level statements that have changed.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.index import Index
from torchperf_lint.model.syntax.indexing import Fragment, assemble, fragments_of
from torchperf_lint.model.syntax.names import grouped
from torchperf_lint.model.syntax.units import Unit, units_of

if TYPE_CHECKING:
    from torchperf_lint.syntax.source import Source


class _Piece(NamedTuple):
    """Top-level statements that share rows, nearly always one, with their units and what these add to the index."""

    row: int
    nodes: list[ast.stmt]
    units: list[Unit]
    fragments: list[Fragment]

    def segments(self) -> list[tuple[int, int]]:
        """The rows where the parts of its text begin, each with the number of the unit that it belongs to."""
        return sorted((row, number) for number, unit in enumerate(self.units) for row in unit.rows)


class EditedFile:
    """The index of a file with its text."""

    def __init__(self, source: Source) -> None:
        """Raises Unreadable where the source cannot be parsed."""
        body = source.parse().body
        self.source = source
        self.index = Index(ast.Module([], []), source.path)
        self.replaced = 0  # bytes of statements that are no more
        self._gone: list[object] = []  # kept, since results may be known by the identity of what is in them
        self._pieces = self._made_of(body)
        self._assemble()

    def change(self, source: Source) -> None:
        """The file has this text now; raises Unreadable, and changes nothing, where it cannot be parsed."""
        before, after = self._unchanged(source)
        if before + after == len(self._pieces) - 1 and self._change_methods(source, before):
            return
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

    def _change_methods(self, source: Source, number: int) -> bool:
        """Change only methods of the class in a piece, where nothing else has changed; returns whether it did."""
        piece, segments = self._pieces[number], self._pieces[number].segments()
        begins = [self.source.line_starts[row - 1] for row, _ in segments]
        ends = [*begins[1:], self._end(number)]
        old, new = self.source.utf8, source.utf8
        grown, same = len(new) - len(old), _alike(old, new)
        same_after = min(_alike_at_end(old, new), min(len(old), len(new)) - same)
        first = next((at for at, end in enumerate(ends) if end > same), len(ends))
        last = len(ends) - next(
            (at for at, begin in enumerate(begins[::-1]) if len(old) - begin > same_after), len(ends)
        )
        changed = [piece.units[unit] for _, unit in segments[first:last]]
        if not changed or any(unit.around is None for unit in changed):
            return False
        begin, end = begins[first], ends[last - 1]
        is_last = number == len(self._pieces) - 1 and last == len(ends)
        if not is_last and not (_begins_row(source, end + grown) and source.row(end + grown) == self.source.row(end)):
            return False
        found = _methods(source, begin, end + grown, changed)
        if found is None:
            return False
        fragments = fragments_of(self.index, found)
        for unit, fragment in zip(found, fragments, strict=True):
            at = next(at for at, each in enumerate(piece.units) if each.position == unit.position and each.around)
            self._gone.append((piece.units[at], piece.fragments[at]))
            piece.units[at], piece.fragments[at] = unit, fragment
            assert unit.around is not None
            unit.around.body[unit.position] = unit.nodes[0]
        around = piece.nodes[0]
        around.end_lineno, around.end_col_offset = _end_of(around)
        self.replaced += end - begin
        self.source = source
        self._assemble()
        return True

    def _made_of(self, body: list[ast.stmt]) -> list[_Piece]:
        pieces = []
        for row, nodes in grouped(body):
            units = units_of(nodes)
            pieces.append(_Piece(row, nodes, units, fragments_of(self.index, units)))
        return pieces

    def _assemble(self) -> None:
        body = [node for piece in self._pieces for node in piece.nodes]
        fragments = [fragment for piece in self._pieces for fragment in piece.fragments]
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
        body = _statements("\n" * (source.row(begin) - 1) + text.decode())
        if body is None:
            return None
        replaced = sum(len(piece.nodes) for piece in self._pieces[before : count - after])
        return None if after and len(body) != replaced else body


def _statements(text: str) -> list[ast.stmt] | None:
    """The statements of a text; None if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _methods(source: Source, begin: int, end: int, before: list[Unit]) -> list[Unit] | None:
    """The methods of a class in a part of its text, in the place of those before; None if it has not as many."""
    text, (first, around) = source.utf8[begin:end], (before[0], before[0].around)
    if _goes_on(source.utf8[:begin]) or _goes_on(text) or around is None:
        return None
    body = _statements("\n" * (first.row - 2) + "class _:\n" + text.decode())
    if body is None or len(body) != 1 or not isinstance(body[0], ast.ClassDef):
        return None
    found = units_of(body)[1:]
    if len(found) != len(before) or len(body[0].body) != len(before):
        return None
    if {_indent(source, each.row) for each in found} != {_indent(source, first.row)}:
        return None
    if any(each.nodes[0].col_offset != around.body[0].col_offset for each in found):
        return None
    return [each._replace(around=around, position=old.position) for each, old in zip(found, before, strict=True)]


def _indent(source: Source, row: int) -> bytes:
    """The white space at the beginning of a row."""
    begin = source.line_starts[row - 1]
    text = source.utf8[begin : begin + 200]
    return text[: len(text) - len(text.lstrip())]


def _end_of(node: ast.stmt) -> tuple[int | None, int | None]:
    """The row and the column where a class ends."""
    assert isinstance(node, ast.ClassDef)
    return node.body[-1].end_lineno, node.body[-1].end_col_offset


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
