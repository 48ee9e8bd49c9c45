"""Merging of edits: which fixes are compatible in one pass, and the text after them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Edit, Fix


class BadEdits(ValueError):
    """Edits overlap or are outside the text."""


def apply_edits(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with all edits applied; duplicates are applied once.

    Insertions at one place keep their order and precede a replacement that starts there. Raise BadEdits where
    edits overlap or are outside the text.
    """
    pieces: list[bytes] = []
    done = 0
    for edit in _in_order(edits):
        if not done <= edit.start <= edit.end <= len(text):
            raise BadEdits("its edits overlap or reach outside the file")
        pieces += (text[done : edit.start], edit.content)
        done = edit.end
    pieces.append(text[done:])
    return b"".join(pieces)


def moved(offset: int, edits: Iterable[Edit]) -> int:
    """The offset of a byte after the edits."""
    return offset + sum(len(edit.content) - (edit.end - edit.start) for edit in set(edits) if edit.end <= offset)


def compatible(fixes: Iterable[Fix]) -> list[int]:
    """Indices of the fixes that can be applied together; a fix that conflicts with an earlier one is left out."""
    taken = _Taken()
    chosen = []
    for index, fix in enumerate(fixes):
        fresh = set(fix.edits) - taken.edits
        if not any(map(taken.clashes, fresh)):
            taken.add(fresh)
            chosen.append(index)
    return chosen


class _Taken:
    """A set of compatible edits: replaced spans of bytes and places of insertions, each sorted."""

    def __init__(self) -> None:
        self.edits: set[Edit] = set()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._places: list[int] = []

    def add(self, edits: Iterable[Edit]) -> None:
        for edit in edits:
            self.edits.add(edit)
            if edit.start == edit.end:
                insort(self._places, edit.start)
            else:
                insort(self._starts, edit.start)
                insort(self._ends, edit.end)

    def clashes(self, edit: Edit) -> bool:
        """Whether the edit overlaps another one, or one of the two inserts into what the other replaces."""
        start, end = edit.start, edit.end
        before = bisect_left(self._starts, end)  # spans that begin before its end; only the last can overlap
        if before and self._ends[before - 1] > start:
            return True
        place = bisect_right(self._places, start)
        return start < end and place < len(self._places) and self._places[place] < end


def _in_order(edits: Iterable[Edit]) -> Sequence[Edit]:
    # dict.fromkeys drops duplicates and, unlike a set, keeps the order of insertions at one place.
    return sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
