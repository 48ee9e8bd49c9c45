"""Plots of findings as inline SVG: a bar for each cost class, cause and file, in parts by severity."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Loss, Rate, Severity, file_of
from torchperf_lint.report import printable
from torchperf_lint.report.elements import broken, percent, picture, tag
from torchperf_lint.report.ranking import files
from torchperf_lint.report.statistics import tallies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context
    from torchperf_lint.report.elements import Markup
    from torchperf_lint.report.ranking import OfFile

MOST_FILES = 15
"""More bars than these tell no more."""

_HEIGHT = 14
_GAP = 0.0025  # between the parts of a bar, as a share of the plot's width
_NO_COST = "no cost in time or memory"
_NO_RANK = (len(Rate), len(Loss))


class _Bar(NamedTuple):
    name: str
    counts: Mapping[str, int]  # by severity
    target: str | None = None  # where its name leads
    about: str = ""


def all_plots(found: Sequence[Diagnostic], anchors: Mapping[int, str], context: Context) -> Iterator[Markup]:
    """The plots by cost class, by cause and by file; `anchors` has that of each finding's group."""
    yield _plot("By cost", "What is lost, and how often: the costliest first.", _by_cost(found), legend=True)
    waits = [each for each in found if each.cost is not None and each.cost.loss is Loss.WAIT]
    others = [each for each in found if each.cost is None or each.cost.loss is not Loss.WAIT]
    about = "The rule with the weightiest finding first."
    if waits:
        yield _plot("Waits by cause", about, _by_rule(waits, anchors, context))
    if others:
        yield _plot("Other costs by cause", about, _by_rule(others, anchors, context))
    counted = _costliest_first(found)
    left_out = len(counted) - MOST_FILES
    more = f" {left_out} more files have fewer." if left_out > 0 else ""
    numbers = {path: number for number, path in enumerate(dict.fromkeys(file_of(each.path) for each in found), 1)}
    of_files = [
        _Bar(printable(each.path), each.severities, f"#file-{numbers[each.path]}") for each in counted[:MOST_FILES]
    ]
    yield _plot("Files by cost", f"Those with most findings of the costliest class first.{more}", of_files)


def _costliest_first(found: Sequence[Diagnostic]) -> list[OfFile]:
    """The files with findings: those with most of the costliest class first, then of the next one."""
    costs = sorted({_rank(each) for each in found})
    counts: dict[str, Counter[tuple[int, int]]] = {}
    for each in found:
        counts.setdefault(file_of(each.path), Counter())[_rank(each)] += 1
    return sorted(files(found), key=lambda each: [-counts[each.path][cost] for cost in costs])


def _rank(diagnostic: Diagnostic) -> tuple[int, int]:
    return _NO_RANK if diagnostic.cost is None else diagnostic.cost.rank


def _by_cost(found: Sequence[Diagnostic]) -> list[_Bar]:
    counts: dict[tuple[tuple[int, int], str], Counter[str]] = {}
    for each in found:
        name = _NO_COST if each.cost is None else str(each.cost)
        counts.setdefault((_rank(each), name), Counter())[each.severity] += 1
    return [_Bar(name, counted) for (_, name), counted in sorted(counts.items(), key=lambda item: item[0])]


def _by_rule(found: Sequence[Diagnostic], anchors: Mapping[int, str], context: Context) -> list[_Bar]:
    counts: dict[str, Counter[str]] = {}
    for each in found:
        counts.setdefault(each.code, Counter())[each.severity] += 1
    first: dict[str, str] = {}
    for each in found:
        first.setdefault(each.code, f"#{anchors[id(each)]}")
    bars = []
    for tally in tallies(found, context):
        described = context.describe(tally.code)
        about = described.summary if described else ""
        bars.append(_Bar(f"{tally.code} {tally.name}", counts[tally.code], first[tally.code], about))
    return bars


def _plot(title: str, about: str, bars: Sequence[_Bar], *, legend: bool = False) -> Markup:
    longest = max(sum(bar.counts.values()) for bar in bars)
    rows = []
    for bar in bars:
        name = broken(bar.name) if bar.target is None else tag("a", broken(bar.name), href=bar.target)
        what = tag("div", name, tag("small", bar.about) if bar.about else "", class_="what")
        total = str(sum(bar.counts.values()))
        rows.append(tag("li", what, _shape(bar, longest), tag("span", total, class_="value")))
    key = [tag("li", tag("i", class_=each.value), f"{each.value}s") for each in Severity]
    legends = [tag("ul", *key, class_="legend")] if legend else []
    head = [tag("h2", title), tag("p", about, class_="about"), *legends]
    return tag("section", *head, tag("ul", *rows, class_="bars"))


def _shape(bar: _Bar, longest: int) -> Markup:
    shapes, start = [], 0.0
    for each in Severity:
        count = bar.counts.get(each.value, 0)
        if count:
            width = count / longest
            inner = max(width - _GAP, _GAP)
            shapes.append(
                tag("rect", x=percent(start), y=0, width=percent(inner), height=_HEIGHT, rx=2, class_=each.value)
            )
            start += width
    counts = ((bar.counts.get(each.value, 0), each.value) for each in Severity)
    told = ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count)
    return picture(f"{bar.name}: {told}", *shapes, height=_HEIGHT)
