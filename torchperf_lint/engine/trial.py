"""Whether a fix can be made: what `--fix` asks of a file before it is written, asked before a fix is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.compose import BadEdits, apply_edits, compatible
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Diagnostic, Edit
    from torchperf_lint.engine.runner import FileReport

MOST_ROUNDS = 20
"""Fixes that clash are tried in turn, and those that clash with so many others are not offered."""


class Rejected(Exception):
    """The result of fixes cannot be accepted; the text says why."""


def edits_of(chosen: Iterable[Diagnostic]) -> list[Edit]:
    """The edits of all the fixes."""
    return [edit for each in chosen if each.fix is not None for edit in each.fix.edits]


def written(source: Source, edits: Iterable[Edit]) -> bytes:
    """The bytes of the file with these edits made; raise Rejected if they could not be read again as the same text."""
    if not source.editable:
        raise Rejected(f"{source.encoding} text cannot be written back unchanged")
    try:
        text = apply_edits(source.utf8, edits)
        data = source.encode(text)
        result = Source(source.path, data)
        result.parse()
    except (BadEdits, UnicodeError) as error:
        reason = str(error) if isinstance(error, BadEdits) else f"its text has no place in {source.encoding}"
        raise Rejected(reason) from None
    except Unreadable as error:
        raise Rejected(f"the result does not parse ({error.reason})") from None
    if (result.encoding, result.utf8) != (source.encoding, text):
        raise Rejected("the result would be read in another encoding")
    return data


def offered(path: str, data: bytes, report: FileReport) -> FileReport:
    """The report without the fixes that cannot be made in the file's bytes; their findings stay.

    Fixes that do not clash are tried together, and apart only where that fails.
    """
    waiting = [each for each in report.diagnostics if each.fix is not None]
    if not waiting:
        return report
    source = Source(path, data)
    sound: set[int] = set()
    for _ in range(MOST_ROUNDS):
        if not waiting:
            break
        together = compatible(each.fix for each in waiting if each.fix is not None)
        sound.update(id(each) for each in _sound(source, [waiting[place] for place in together]))
        tried = set(together)
        waiting = [each for place, each in enumerate(waiting) if place not in tried]
    kept = (each if each.fix is None or id(each) in sound else each._replace(fix=None) for each in report.diagnostics)
    return report._replace(diagnostics=tuple(kept))


def _sound(source: Source, chosen: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    try:
        written(source, edits_of(chosen))
    except Rejected:
        half = len(chosen) // 2
        return [*_sound(source, chosen[:half]), *_sound(source, chosen[half:])] if half else ()
    return chosen
