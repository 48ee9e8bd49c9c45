"""The report on a trace as one self-contained page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_lint import __version__
from torchperf_lint.profile import text
from torchperf_lint.report.sources import Sources, edit_diff
from torchperf_lint.verify.page.markup import document, facts, join, plain, short, tag
from torchperf_lint.verify.report import today, write_page

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.profile.summary import Found, Summary
    from torchperf_lint.report import Context
    from torchperf_lint.verify.page.markup import Markup


def write(name: str, summary: Summary, context: Context, folder: Path) -> Path:
    """Write the page into a folder, which is created if necessary."""
    return write_page(page(name, summary, context, today()), folder)


def page(name: str, summary: Summary, context: Context, date: datetime.date) -> str:
    """The text of the page; the same for the same trace, files and date."""
    sources = Sources(context.read)
    sections = [_section(title, lines, summary, sources) for title, lines in text.sections(summary)]
    unseen = [_finding(each, sources) for each in summary.not_seen]
    last = tag("section", tag("h2", "Found, not seen"), *(unseen or [tag("p", "Nothing.", class_="about")]))
    title = "torchperf-lint profile: how long the host waits"
    return document(title, [_header(name, summary, date), *sections, last])


def _header(name: str, summary: Summary, date: datetime.date) -> Markup:
    unit = "ms of waits per step" if summary.steps else "ms of waits"
    sentence = text.sentence(summary)
    named: dict[str, str | int] = {
        "Trace": os.path.basename(name),
        "Steps": summary.steps or "",
        "Step": f"{plain(summary.step)} ms" if summary.steps else "",
        "Waits": plain(summary.waits),
        "Found": len(summary.confirmed),
        "Perhaps found": len(summary.possible),
        "Not found": len(summary.not_found),
        "torchperf-lint": __version__,
        "Date": date.isoformat(),
    }
    return tag(
        "header",
        tag("p", "torchperf-lint profile", class_="over"),
        tag("h1", tag("span", short(summary.milliseconds), class_="wait"), tag("small", unit)),
        tag("p", f"{sentence[:1].upper()}{sentence[1:]}", class_="lead"),
        *(tag("p", remark, class_="about") for remark in text.remarks(summary)),
        facts(named),
    )


def _section(title: str, lines: Sequence[Found], summary: Summary, sources: Sources) -> Markup:
    heading = tag("h2", f"{title[:1].upper()}{title[1:]}")
    if not lines:
        return tag("section", heading, tag("p", "Nothing.", class_="about"))
    heads = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in ("ms", "Waits", "Line"))))
    rows = tag("tbody", *(row for each in lines for row in _rows(each, sources)))
    caption = tag("caption", f"{title}, {'per step' if summary.steps else 'in all'}")
    table = tag("table", caption, heads, rows, class_="lines")
    wide = tag("div", table, class_="wide", role="region", aria_label=f"Table of lines {title}", tabindex=0)
    return tag("section", heading, wide)


def _rows(found: Found, sources: Sources) -> Iterator[Markup]:
    measured = found.measured
    what = tag("span", f"{text.place(measured)}, {text.cause(measured)}", class_="place")
    known = len(measured.spot.rows) == 1
    code = _code(measured.spot.where.file, measured.spot.where.row, sources) if known else measured.spot.function
    yield tag(
        "tr",
        tag("td", short(measured.milliseconds), class_="wait" if measured.certain else None),
        tag("td", short(measured.waits)),
        tag("td", tag("code", code or "–"), what, *(_finding(each, sources) for each in found.findings), class_="word"),
    )


def _code(file: str, row: int, sources: Sources) -> str:
    source = sources.get(file)
    lines = source.utf8.splitlines() if source is not None else []
    return lines[row - 1].decode(errors="replace").strip() if 0 < row <= len(lines) else ""


def _finding(finding: Diagnostic, sources: Sources) -> Markup:
    said = tag("p", tag("b", finding.code), f" {finding.path}:{finding.row} {finding.message}", class_="about")
    source = sources.get(finding.path) if finding.fix else None
    if finding.fix is None or source is None:
        return said
    grade = tag("h4", f"{finding.fix.message} ({finding.fix.safety.value})")
    changes = tag("pre", join(_changes(edit_diff(source, finding.fix.edits))), class_="diff", tabindex=0)
    return join([said, grade, changes])


def _changes(lines: Iterable[str]) -> Iterator[Markup]:
    for line in lines:
        yield tag("del" if line[0] == "-" else "ins", line, "\n")
