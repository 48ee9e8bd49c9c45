"""The part of the page that belongs to one rule: its table, and for each program the evidence, folded away."""

from __future__ import annotations

import difflib
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.page.entries import LABELS
from torchperf_lint.verify.page.markup import join, plain, tag
from torchperf_lint.verify.page.timelines import timelines
from torchperf_lint.verify.tables import program_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.verify.page.entries import Entry
    from torchperf_lint.verify.page.markup import Markup
    from torchperf_lint.verify.runs import Line

_COUNTED = (
    ("waits", "Waits"),
    ("staged", "Staged"),
    ("to_device", "To device"),
    ("to_host", "To host"),
)


def rule_section(rule: Rule, entries: Sequence[Entry]) -> Markup:
    """A rule's heading, the table of its programs, and what was seen of each."""
    heading = tag("h2", tag("b", rule.code), " ", rule.name)
    summary = tag("p", f"{rule.summary[:1].upper()}{rule.summary[1:]}.", class_="summary")
    return tag(
        "section", heading, summary, _table(rule, entries), *map(_evidence, entries), class_="rule", id=rule.code
    )


# ---- the table


def _table(rule: Rule, entries: Sequence[Entry]) -> Markup:
    timed = any(entry.times for entry in entries)
    heads = ["Variant", *(head for _, head in _COUNTED), "Results", *(["Step", "Ratio"] if timed else [])]
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    bodies = [tag("tbody", *_rows(entry, timed, len(heads))) for entry in entries]
    caption = tag("caption", f"Programs of {rule.code}: counts per steady step")
    return tag(
        "div",
        tag("table", caption, head, *bodies, class_="counts"),
        class_="wide",
        role="region",
        aria_label=f"Table of {rule.code}",
        tabindex=0,
    )


def _rows(entry: Entry, timed: bool, columns: int) -> Iterator[Markup]:
    verdict = tag("span", entry.proof.verdict, class_=f"verdict {entry.proof.verdict.partition(' ')[0]}")
    reasons = [tag("span", reason, class_="reason") for reason in _remarks(entry)]
    name = tag("a", entry.name, href=f"#{entry.anchor}")
    yield tag("tr", tag("th", name, verdict, *reasons, scope="rowgroup", colspan=columns), class_="program")
    known = entry.counts()
    for variant in entry.proof.runs:
        counts = known.get(variant)
        cells = [plain(getattr(counts, field)) if counts else "–" for field, _ in _COUNTED]
        compared = "" if variant == UNFIXED else entry.compared(variant)
        if timed:
            cells_of_time = _times(entry, variant)
        yield tag(
            "tr",
            tag("th", LABELS[variant], scope="row"),
            *(
                tag("td", cell, class_="wait" if field == "waits" and counts and counts.waits else None)
                for cell, (field, _) in zip(cells, _COUNTED, strict=True)
            ),
            tag("td", compared, class_="word"),
            *([tag("td", each) for each in cells_of_time] if timed else []),
        )


def _remarks(entry: Entry) -> list[str]:
    if len(entry.proof.runs) == 1 and not entry.proof.reasons:
        return ["No fix changes this program under these versions."]
    return entry.proof.reasons


def _times(entry: Entry, variant: str) -> tuple[str, str]:
    """The median step, and how many times as long the unfixed one is."""
    if entry.times is None or variant not in entry.times.medians:
        return "–", "–"
    compared = entry.times.comparisons.get(variant)
    return f"{plain(entry.times.medians[variant])} ms", plain(compared.ratio) if compared else ""


# ---- the evidence


def _evidence(entry: Entry) -> Markup:
    shown = tag("span", entry.name, class_="name")
    if not entry.proof.runs:
        body = [tag("p", reason, class_="note") for reason in entry.proof.reasons]
    else:
        body = [timelines(entry), _waiting_lines(entry), *_diffs(entry)]
    target = tag("div", *body, id=entry.anchor, class_="evidence")
    return tag("details", tag("summary", shown, tag("span", _effect(entry), class_="effect")), target)


def _effect(entry: Entry) -> Markup | str:
    waits = [each.waits for each in entry.counts().values()]
    if not waits:
        return entry.proof.verdict
    return join(map(_number, dict.fromkeys((waits[0], waits[-1]))), " → ")


def _number(waits: Fraction) -> Markup:
    return tag("span", plain(waits), class_="wait" if waits else None)


def _waiting_lines(entry: Entry) -> Markup:
    """What waits in each variant: how often, where, and the source."""
    heads = ["Waits", "Staged", "Line"]
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    bodies = []
    for variant, run in entry.proof.runs.items():
        title = tag("tr", tag("th", LABELS[variant], scope="rowgroup", colspan=len(heads)), class_="program")
        if run.status != OK:
            rows = [_remark(f"{run.status}: {run.report['error']}", len(heads))]
        else:
            rows = [_line(entry, variant, line) for line in run.lines()]
            rows = rows or [_remark("No line makes the host wait.", len(heads))]
        bodies.append(tag("tbody", title, *rows))
    caption = tag("caption", "The lines that wait, per steady step")
    table = tag("table", caption, head, *bodies, class_="lines")
    return tag("div", table, class_="wide", role="region", aria_label=f"Lines of {entry.name}", tabindex=0)


def _remark(text: str, columns: int) -> Markup:
    return tag("tr", tag("td", text, colspan=columns, class_="word"))


def _line(entry: Entry, variant: str, line: Line) -> Markup:
    place = entry.shown_place(line.where)
    through = f" through {entry.shown_place(line.via)}" if line.via else ""
    return tag(
        "tr",
        tag("td", plain(line.waits), class_="wait" if line.waits else None),
        tag("td", plain(line.staged)),
        tag(
            "td",
            tag("code", entry.source_line(variant, line.where) or "–"),
            tag("span", f"{place}, {line.operator}{through}", class_="place"),
            class_="word",
        ),
    )


def _diffs(entry: Entry) -> Iterator[Markup]:
    """What the fixes of each grade change, grade by grade."""
    for (before, old), (after, new) in pairwise(entry.proof.programs.items()):
        yield from changes(f"{LABELS[before]} → {LABELS[after]}", old, new)


def changes(title: str, before: bytes, after: bytes) -> Iterator[Markup]:
    """A heading, and what changes from one text to another."""
    diff = difflib.unified_diff(program_lines(before), program_lines(after), n=2, lineterm="")
    lines = join(_diff_lines(list(diff)[2:]))
    yield tag("h4", title)
    yield tag("pre", lines, class_="diff", role="region", aria_label=f"Changes, {title}", tabindex=0)


def _diff_lines(diff: Iterable[str]) -> Iterator[Markup]:
    for change in diff:
        if change.startswith("@@"):
            row = re.search(r"\+(\d+)", change)
            yield tag("span", f"line {row[1]}\n" if row else "\n", class_="hunk")
        elif change[0] in "+-":
            yield tag("del" if change[0] == "-" else "ins", change, "\n")
        else:
            yield tag("span", change, "\n")
