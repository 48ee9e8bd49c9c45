"""Putting edits together: which fixes go together in one pass, and what the text is after them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Edit, Fix


class BadEdits(ValueError):
    """Edits overlap or reach outside the text."""


def apply_edits(text: bytes, edits: Iterable[Edit]) -> bytes:
    """The text with all edits made; the same edit twice is made once.

    Insertions at one place keep their order and come before what is replaced there. Raise BadEdits where
    edits overlap or lie outside the text.
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
    """Where a byte of the text stands after the edits."""
    return offset + sum(len(edit.content) - (edit.end - edit.start) for edit in set(edits) if edit.end <= offset)


def compatible(fixes: Iterable[Fix]) -> list[int]:
    """Indices of the fixes that can be applied together: each in turn, unless it clashes with one before it."""
    taken = _Taken()
    chosen = []
    for index, fix in enumerate(fixes):
        fresh = set(fix.edits) - taken.edits
        if not any(map(taken.clashes, fresh)):
            taken.add(fresh)
            chosen.append(index)
    return chosen


class _Taken:
    """Edits that go together: spans of bytes that are replaced, and places of insertions, each in order."""

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
        """Whether the edit touches bytes of another one, or one of the two inserts into what the other replaces."""
        start, end = edit.start, edit.end
        before = bisect_left(self._starts, end)  # the spans that begin before its end; only their last may reach it
        if before and self._ends[before - 1] > start:
            return True
        place = bisect_right(self._places, start)
        return start < end and place < len(self._places) and self._places[place] < end


def _in_order(edits: Iterable[Edit]) -> Sequence[Edit]:
    # dict.fromkeys drops doubles and, unlike a set, keeps the order of insertions at one place.
    return sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
