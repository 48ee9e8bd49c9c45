"""The number of findings per rule, instead of the findings themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.report import paint
from torchperf_lint.report.groups import weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


class Tally(NamedTuple):
    """The findings of one rule, counted."""

    code: str
    name: str
    found: int
    fixable: int  # how many of them `--fix` would fix
    severity: str  # those of the weightiest finding
    cost: str | None


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield `count code [*] name (cost)` for each rule; the star means that `--fix` would fix some."""
    counted = tallies(diagnostics, context)
    width = max((len(str(each.found)) for each in counted), default=0)
    for each in counted:
        star = paint("[*]", "cyan", context) if each.fixable else "[ ]"
        cost = "" if each.cost is None else f" ({each.cost})"
        yield f"{each.found:>{width}}  {paint(each.code, 'red', context)}  {star}  {each.name}{cost}"


def render_json(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the same as one line of JSON."""
    import json

    counted = tallies(diagnostics, context)
    keys = ("code", "name", "count", "fixable", "severity", "cost")
    yield json.dumps([dict(zip(keys, each, strict=True)) for each in counted])


def tallies(diagnostics: Iterable[Diagnostic], context: Context) -> list[Tally]:
    """The rules' tallies: the rule with the weightiest finding first, then the one with most findings."""
    by_code: dict[str, list[Diagnostic]] = {}
    for each in diagnostics:
        by_code.setdefault(each.code, []).append(each)
    ranked = []
    for code, found in by_code.items():
        top = min(found, key=weight)
        cost = None if top.cost is None else str(top.cost)
        fixable = sum(map(context.fixable, found))
        ranked.append((weight(top), -len(found), Tally(code, top.name, len(found), fixable, top.severity, cost)))
    return [tally for *_, tally in sorted(ranked)]
