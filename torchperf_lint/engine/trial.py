"""Trial application of fixes: the conditions of `--fix`, checked before a fix is offered."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torchperf_lint.engine.edit_merge import BadEdits, apply_edits, compatible, moved
from torchperf_lint.engine.findings import Confidence, NoFix, Safety
from torchperf_lint.engine.layout import STANDARD_LENGTH, laid_out
from torchperf_lint.engine.registry import UNUSED_SUPPRESSION
from torchperf_lint.engine.runner import check_source
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.syntax.parsing import fault_of
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Diagnostic, Edit
    from torchperf_lint.engine.runner import FileReport
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target

MOST_ROUNDS = 20
"""Conflicting fixes are tried in turn; a fix that conflicts with this many others is not offered."""

MOST_CHECKS = 20
"""How often a file is checked again for its fixes; fixes that need more checks to separate are not offered."""


class Rejected(Exception):
    """The result of fixes is not acceptable; the text says why."""


def edits_of(chosen: Iterable[Diagnostic]) -> list[Edit]:
    """All edits of the fixes."""
    return [edit for each in chosen if each.fix is not None for edit in each.fix.edits]


def written(source: Source, edits: Iterable[Edit]) -> bytes:
    """The file's bytes with these edits applied; raise Rejected if they would not decode to the same text."""
    if not source.editable:
        raise Rejected(f"{source.encoding} text cannot be written back unchanged")
    try:
        text = apply_edits(source.utf8, edits)
        data = source.encode(text)
        result = Source(source.path, data)
        tree = result.parse()
    except (BadEdits, UnicodeError) as error:
        reason = str(error) if isinstance(error, BadEdits) else f"its text has no place in {source.encoding}"
        raise Rejected(reason) from None
    except Unreadable as error:
        raise Rejected(f"the result does not parse ({error.reason})") from None
    if (result.encoding, result.utf8) != (source.encoding, text):
        raise Rejected("the result would be read in another encoding")
    fault = fault_of(tree)
    if fault is not None and fault_of(source.parse()) is None:
        raise Rejected(f"the result does not compile ({fault})")
    return data


def has_lessened(
    before: FileReport, after: FileReport, chosen: Sequence[Diagnostic], made: Sequence[Edit] = ()
) -> None:
    """Raise Rejected unless the file can be checked after these fixes and each rule lost a finding per fix.

    What is found where a fix of another rule was made takes the place of its finding, and does not count: a sum that
    is no longer shown in every step is still read in every step.
    """
    if after.failure is not None and before.failure is None:
        raise Rejected(f"the result cannot be checked ({after.failure.reason})")
    followed = {(moved(each.start, made), each.code) for each in chosen}
    places = {start for start, _ in followed}
    left = [each for each in after.diagnostics if each.start not in places or (each.start, each.code) in followed]
    were, are = (Counter(each.code for each in found) for found in (before.diagnostics, left))
    for code, count in Counter(each.code for each in chosen).items():
        if are[code] > were[code] - count:
            raise Rejected(f"{code} would still be found afterwards")


def offered(
    report: FileReport,
    path: str,
    data: bytes,
    rules: Sequence[Rule],
    target: Target,
    hints: Hints,
    *,
    in_project: bool = False,
    comments: Comments = Comments.ALL,
    report_unused: bool = True,
    least: Confidence = Confidence.LIKELY,
    line_length: int = STANDARD_LENGTH,
) -> FileReport:
    """The report of `check_source` without the fixes that `--fix` would withdraw; their findings stay.

    `in_project` says that the report rests on other files. Fixes are laid out for lines of `line_length` columns, each
    as if it were the only one. Compatible fixes are tried together, and separately only where that fails. Only the
    rules of the fixes check the file again, and they see it alone: what the project says of a changed file would have
    to be inferred anew, and `--fix` does that. SHOWN fixes, which are never applied, only need a readable result: what
    they leave to the reader may still be reported.
    """
    fixed = [each for each in report.diagnostics if each.fix is not None]
    if not fixed:
        return report
    source = Source(path, data)
    checks = iter(range(MOST_CHECKS))

    def can_be_read(chosen: Sequence[Diagnostic]) -> None:
        written(source, laid_out(source, edits_of(chosen), line_length))

    def alone(content: bytes, asked: Sequence[Rule], unused: bool) -> FileReport:
        subject = (path, content, asked, target, hints)
        return check_source(*subject, comments=comments, report_unused=report_unused and unused, least=least)

    def can_be_made(chosen: Sequence[Diagnostic]) -> None:
        made = laid_out(source, edits_of(chosen), line_length)
        result = written(source, made)
        if next(checks, None) is None:
            raise Rejected("the file has been checked too often")
        codes = {each.code for each in chosen}
        unused = UNUSED_SUPPRESSION in codes
        asked = rules if unused else [rule for rule in rules if rule.code in codes]
        before = alone(data, asked, unused) if in_project else report
        found = {(each.start, each.code) for each in before.diagnostics}
        known = [each for each in chosen if (each.start, each.code) in found]
        has_lessened(before, alone(result, asked, unused), known, made)

    shown = [each for each in fixed if each.fix is not None and each.fix.safety is Safety.SHOWN]
    made = [each for each in fixed if each.fix is not None and each.fix.safety is not Safety.SHOWN]
    sound = {id(each) for each in (*_accepted(shown, can_be_read), *_accepted(made, can_be_made))}

    def shown_as(each: Diagnostic) -> Diagnostic:
        if each.fix is None:
            return each
        if id(each) not in sound:
            return each._replace(fix=None, no_fix=NoFix.WITHDRAWN.identifier)
        return each._replace(fix=each.fix._replace(edits=laid_out(source, each.fix.edits, line_length)))

    kept = map(shown_as, report.diagnostics)
    return report._replace(diagnostics=tuple(kept))


def _accepted(fixed: Sequence[Diagnostic], accept: Callable[[Sequence[Diagnostic]], None]) -> list[Diagnostic]:
    """The findings whose fixes `accept` does not reject."""
    accepted: list[Diagnostic] = []
    waiting = list(fixed)
    for _ in range(MOST_ROUNDS):
        if not waiting:
            break
        together = compatible(each.fix for each in waiting if each.fix is not None)
        accepted += _sound([waiting[place] for place in together], accept)
        tried = set(together)
        waiting = [each for place, each in enumerate(waiting) if place not in tried]
    return accepted


def _sound(chosen: Sequence[Diagnostic], accept: Callable[[Sequence[Diagnostic]], None]) -> Sequence[Diagnostic]:
    try:
        accept(chosen)
    except Rejected:
        half = len(chosen) // 2
        return [*_sound(chosen[:half], accept), *_sound(chosen[half:], accept)] if half else ()
    return chosen
