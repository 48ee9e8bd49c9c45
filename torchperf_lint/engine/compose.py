"""Putting edits together: which fixes go together in one pass, and what the text is after them."""

from __future__ import annotations

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
    taken: set[Edit] = set()
    chosen = []
    for index, fix in enumerate(fixes):
        fresh = set(fix.edits) - taken
        if not any(_clash(new, old) for new in fresh for old in taken):
            taken |= fresh
            chosen.append(index)
    return chosen


def _clash(one: Edit, other: Edit) -> bool:
    """Whether two different edits touch the same bytes, or one inserts into what the other replaces."""
    if one.start == one.end and other.start == other.end:
        return False
    return one.start < other.end and other.start < one.end


def _in_order(edits: Iterable[Edit]) -> Sequence[Edit]:
    # dict.fromkeys drops doubles and, unlike a set, keeps the order of insertions at one place.
    return sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
