"""What to look at first: findings by file and by grade of fix, and the places to begin with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Confidence, Safety, Severity, file_of
from torchperf_lint.report.groups import grouped, weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report.groups import Group

PLACES = 5
"""So many places fit on a screen beside the totals."""

NO_FIX = "none"
GRADES = (*(each.value for each in Safety), NO_FIX)
"""Grades of fixes, the most trusted first, and the name for no fix."""


class OfFile(NamedTuple):
    """The findings of one file, counted."""

    path: str
    found: int
    severities: dict[str, int]  # the weightiest first


def grade(diagnostic: Diagnostic) -> str:
    """The grade of the finding's fix, one of GRADES."""
    return NO_FIX if diagnostic.fix is None else diagnostic.fix.safety.value


def grades(found: Iterable[Diagnostic]) -> dict[str, int]:
    """The number of findings for each of GRADES."""
    counted = Counter(map(grade, found))
    return {each: counted[each] for each in GRADES}


def severities(found: Iterable[Diagnostic]) -> dict[str, int]:
    """The number of findings for each severity that occurs, the weightiest first."""
    return _by_severity(Counter(each.severity for each in found))


def files(found: Iterable[Diagnostic]) -> list[OfFile]:
    """The files with findings: those with most errors first, then warnings, then notes."""
    by_path: dict[str, Counter[str]] = {}
    for each in found:
        by_path.setdefault(file_of(each.path), Counter())[each.severity] += 1
    counted = [OfFile(path, counts.total(), _by_severity(counts)) for path, counts in by_path.items()]
    return sorted(counted, key=lambda each: (*(-each.severities.get(level.value, 0) for level in Severity), each.path))


def _by_severity(counts: Counter[str]) -> dict[str, int]:
    return {each.value: counts[each.value] for each in Severity if each.value in counts}


def places_to_begin(found: Sequence[Diagnostic], most: int = PLACES) -> list[Group]:
    """The weightiest groups of findings: by severity and cost class, then the proven ones, then those with a fix."""
    return sorted(grouped(found), key=_precedence)[:most]


def _precedence(group: Group) -> tuple[object, ...]:
    head = group.head
    unproven = head.confidence is not Confidence.PROVEN
    return *weight(head), unproven, GRADES.index(grade(head)), head.path, head.start, head.code
