"""Findings of one cause: in one statement, about one expression, parts of one value row by row, one drained queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.findings import Diagnostic

_Cause = tuple[object, ...]


class Group(NamedTuple):
    """Findings of one cause: the weightiest one, and the others by place."""

    head: Diagnostic
    parts: tuple[Diagnostic, ...] = ()

    @property
    def name(self) -> str | None:
        """A name for other programs: the place of the first finding; None for a finding by itself."""
        if not self.parts:
            return None
        first = min((self.head, *self.parts), key=lambda each: (each.start, each.code))
        return f"{first.path}:{first.row}:{first.column}"


def grouped(found: Iterable[Diagnostic]) -> list[Group]:
    """The findings, sorted by path and place, as groups in the order of their first ones.

    One cause have findings of one rule in one statement; findings of any rules about one expression; findings of
    one rule in statements on consecutive rows that are about parts of one value; and waits that find the queue drained
    by the wait of another finding.
    """
    groups: list[list[Diagnostic]] = []
    by_cause: dict[_Cause, list[Diagnostic]] = {}
    for each in found:
        statement, expression = ("statement", each.code, *each.noqa_rows), ("expression", each.start, each.end)
        follows = ("value", each.code, each.about, each.noqa_rows[0])
        causes = [(each.path, *cause) for cause in (statement, expression, follows, ("drains", each.behind))]
        group = next((by_cause[cause] for cause in causes if cause in by_cause), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(each)
        precedes = (each.path, "value", each.code, each.about, each.noqa_rows[1] + 1)
        drains = (each.path, "drains", each.start)
        by_cause.update(dict.fromkeys((*causes[:2], drains, *((precedes,) if each.about else ())), group))
    return list(map(_group, groups))


def group_names(found: Sequence[Diagnostic]) -> list[str | None]:
    """The name of each finding's group."""
    names = {id(each): group.name for group in grouped(found) for each in (group.head, *group.parts)}
    return [names[id(each)] for each in found]


def weight(diagnostic: Diagnostic) -> tuple[object, ...]:
    """A key that sorts the weightiest findings first: by severity, then by cost class."""
    cost = diagnostic.cost
    return (Severity(diagnostic.severity).rank, *((1, (0, 0)) if cost is None else (0, cost.rank)))


def _group(members: Sequence[Diagnostic]) -> Group:
    head = min(members, key=lambda each: (weight(each), each.start, each.code))
    parts = sorted((each for each in members if each is not head), key=lambda each: (each.start, each.code))
    return Group(head, tuple(parts))
