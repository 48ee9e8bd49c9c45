"""Findings as one page of HTML that loads nothing: totals, plots, and each finding with its code, evidence and fix."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_lint import __version__
from torchperf_lint.engine.findings import CellPath, Confidence, Safety, Severity, file_of
from torchperf_lint.report import NOT_CHECKED, bars, printable, ranking
from torchperf_lint.report.commands import next_commands
from torchperf_lint.report.elements import broken, document, join, tag
from torchperf_lint.report.groups import grouped
from torchperf_lint.report.snippets import code, difference
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Because, Diagnostic, Failure, Fix
    from torchperf_lint.report import Context
    from torchperf_lint.report.elements import Markup
    from torchperf_lint.report.groups import Group
    from torchperf_lint.syntax.source import Source

_ABOUT = (
    "Each rule has a severity: error for a wait in every step, warning for lost throughput or memory, note for advice."
    " A finding that matters less, such as a wait behind another one, is milder than its rule."
)
_GRADES = {
    Safety.SAFE: "safe: --fix applies it",
    Safety.UNSAFE: "unsafe: --fix --unsafe-fixes applies it; read it first",
    Safety.SHOWN: "shown only, never written",
}
_CODE = re.compile("`([^`]+)`")


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the page, in ASCII, and so the same in whatever encoding a terminal has."""
    found = list(diagnostics)
    groups = grouped(found)
    anchors = {
        id(each): f"finding-{number}" for number, group in enumerate(groups, 1) for each in (group.head, *group.parts)
    }
    parts = [_top(found, groups, context)]
    if found:
        parts += [_begin(found, anchors), *bars.all_plots(found, anchors, context), _next(found, context)]
        parts.append(_findings(groups, anchors, context))
    if context.failures:
        parts.append(_failures(context.failures))
    parts.append(tag("footer", f"Written by torchperf-lint {__version__}."))
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    page = document(f"torchperf-lint: {_counted(len(found), 'finding')}", parts, style)
    yield page.rstrip("\n").encode("ascii", "xmlcharrefreplace").decode()


def _top(found: Sequence[Diagnostic], groups: Sequence[Group], context: Context) -> Markup:
    files = len({file_of(each.path) for each in found})
    where = f"at {_counted(len(groups), 'place')} in {_counted(files, 'file')}"
    title = tag("h1", _counted(len(found), "finding") if found else "No findings", tag("small", where) if found else "")
    over = tag("p", "torchperf-lint", class_="over")
    unchecked = f"{_counted(len(context.failures), 'file')} could not be checked." if context.failures else ""
    if not found:
        return tag("header", over, title, tag("p", unchecked, class_="lead"))
    levels, grades = ranking.severities(found), ranking.grades(found)
    likely = sum(each.confidence is Confidence.LIKELY for each in found)
    facts = [
        *((f"{level.value}s", levels.get(level.value, 0), level.value) for level in Severity),
        ("likely, not proven", likely, ""),
        *((f"{each.value} fixes", grades[each.value], "") for each in Safety),
        ("without a fix", grades[ranking.NO_FIX], ""),
    ]
    listed = (tag("div", tag("dt", name), tag("dd", str(count), class_=level or None)) for name, count, level in facts)
    about = f"{_ABOUT} {unchecked}".rstrip()
    return tag("header", over, title, tag("p", about, class_="lead"), tag("dl", *listed))


def _begin(found: Sequence[Diagnostic], anchors: dict[int, str]) -> Markup:
    places = []
    for group in ranking.places_to_begin(found):
        head = group.head
        others = f"; {len(group.parts)} more of the same cause" if group.parts else ""
        place = tag("a", broken(f"{printable(head.path)}:{head.row}"), href=f"#{anchors[id(head)]}")
        facts = f"{head.code}, {', '.join(_facts(head))}{others}"
        places.append(tag("li", tag("p", place, class_="at"), _said(head.message), tag("p", facts, class_="quiet")))
    return tag("section", tag("h2", "Begin with"), tag("ol", *places), class_="begin")


def _next(found: Sequence[Diagnostic], context: Context) -> Markup:
    listed = [
        tag("li", tag("code", each.line), tag("p", each.does, class_="quiet")) for each in next_commands(found, context)
    ]
    return tag("section", tag("h2", "Next"), tag("ul", *listed), class_="next")


def _findings(groups: Sequence[Group], anchors: dict[int, str], context: Context) -> Markup:
    sources, parts = Sources(context.read), []
    by_path: dict[str, list[Group]] = {}
    for group in groups:
        by_path.setdefault(file_of(group.head.path), []).append(group)
    for number, (path, of_file) in enumerate(by_path.items(), 1):
        count = sum(1 + len(group.parts) for group in of_file)
        articles = [_article(group, anchors[id(group.head)], sources.get(group.head.path)) for group in of_file]
        heading = tag("h3", broken(printable(path)), " ", tag("small", _counted(count, "finding")), id=f"file-{number}")
        parts.append(tag("section", heading, *articles, class_="file"))
    return tag("section", tag("h2", "Findings"), *parts)


def _article(group: Group, anchor: str, source: Source | None) -> Markup:
    head = group.head
    parts = [_heading(head), _said(head.message), *_snippet(head, source)]
    parts += [_evidence(head.because, head.path), *_fix(head.fix, source)]
    shown, fixes, rows = set(head.because), [head.fix], {head.row}
    for part in group.parts:
        new = [step for step in part.because if step not in shown]
        facts = f" ({', '.join(_facts(part))})" if _facts(part) != _facts(head) else ""
        also = [tag("p", tag("b", "Also "), f"row {part.row}, {part.code} {part.name}{facts}", class_="also")]
        also += [_said(part.message), *(_snippet(part, source) if part.row not in rows else ())]
        rows.add(part.row)
        also += [_evidence(new, part.path), *(_fix(part.fix, source) if part.fix not in fixes else ())]
        parts.append(tag("div", *also, class_="part"))
        shown.update(part.because)
        fixes.append(part.fix)
    return tag("article", *parts, id=anchor)


def _heading(diagnostic: Diagnostic) -> Markup:
    name = tag("h4", tag("b", diagnostic.code), f" {diagnostic.name}")
    level, *others = _facts(diagnostic)
    chips = [tag("b", level, class_=level), *(tag("span", each) for each in others)]
    cell = f"cell {diagnostic.path.cell}, " if isinstance(diagnostic.path, CellPath) else ""
    place = tag("span", f"{cell}row {diagnostic.row}, column {diagnostic.column}")
    return tag("header", name, tag("p", *chips, place, class_="facts"))


def _facts(diagnostic: Diagnostic) -> list[str]:
    cost = [] if diagnostic.cost is None else [str(diagnostic.cost)]
    return [diagnostic.severity, *cost, diagnostic.confidence.value]


def _said(message: str) -> Markup:
    """A message, with what stands in backticks as code."""
    parts = _CODE.split(printable(message))
    return tag("p", join(tag("code", part) if odd % 2 else part for odd, part in enumerate(parts)), class_="said")


def _snippet(diagnostic: Diagnostic, source: Source | None) -> Iterator[Markup]:
    if source is not None and diagnostic.end_row <= len(source.line_starts):
        yield code(diagnostic, source)


def _evidence(because: Sequence[Because], path: str) -> Markup:
    steps = []
    for step in because:
        place = f"{printable(step.path or path)}:{step.row}"
        steps.append(tag("li", _said(step.text), tag("p", broken(place), class_="place")))
    return tag("ol", *steps, class_="because") if steps else join(())


def _fix(fix: Fix | None, source: Source | None) -> Iterator[Markup]:
    if fix is None:
        return
    grade = tag("span", _GRADES[fix.safety], class_="quiet")
    yield tag("p", tag("b", "Fix "), printable(fix.message), " ", grade, class_="fix")
    if fix.assumes:
        yield tag("p", tag("b", "Assumes "), _said(fix.assumes), class_="fix")
    if source is not None and all(edit.end <= len(source.utf8) for edit in fix.edits):
        yield difference(source, fix.edits)


def _failures(failures: Sequence[Failure]) -> Markup:
    listed = []
    for each in failures:
        place = tag("p", broken(printable(each.place)), class_="at")
        listed.append(tag("li", place, tag("p", f"{NOT_CHECKED}: {printable(each.reason)}")))
    return tag("section", tag("h2", "Not checked"), tag("ul", *listed), class_="failures")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
