"""The page of a user's program: its loops with their waiting lines, what the linter says of each, and the preview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.verify import account_text
from torchperf_lint.verify.account import percent
from torchperf_lint.verify.page.markup import document, facts, plain, short, tag
from torchperf_lint.verify.page.sections import changes
from torchperf_lint.verify.tables import program_lines

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.account import Account, CountedLoop, WaitingLine
    from torchperf_lint.verify.page.markup import Markup
    from torchperf_lint.verify.preview import Preview
    from torchperf_lint.verify.sources import Sources


def page(account: Account, date: datetime.date) -> str:
    """The text of the page; the same for the same account, files and date."""
    texts = _Texts(account.sources)
    parts = [_header(account, date), *(_loop(loop, texts) for loop in account.loops)]
    parts += [_not_seen(title, found, account.sources) for title, found in account_text.unseen(account)]
    if not account.ended_well:
        parts.append(_not_seen("found, neither confirmed nor refuted", account.not_seen, account.sources))
    if account.preview is not None:
        parts.append(_preview(account.preview, account.sources))
    return document(f"torchperf-lint verify: {account.sources.shown(account.sources.script)}", parts)


class _Texts:
    """The lines of source files, each read once, and how places are shown."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._lines: dict[str, list[str]] = {}

    def line(self, path: str, row: int) -> str:
        """The text of a line; empty where there is none."""
        if path not in self._lines:
            try:
                with open(path, "rb") as file:
                    self._lines[path] = program_lines(file.read())
            except OSError:
                self._lines[path] = []
        lines = self._lines[path]
        return lines[row - 1].strip() if 0 < row <= len(lines) else ""


def _header(account: Account, date: datetime.date) -> Markup:
    run, sources = account.run, account.sources
    waits = tag("span", short(account.counts.waits), class_="wait" if account.counts.waits else None)
    over = "waits per step" if run.steady else "waits in all"
    device = run.report["device"]
    told = {
        "Script": sources.shown(sources.script),
        "Device": device.get("name", ""),
        "torch": device.get("torch", ""),
        "Python": device.get("python", ""),
        "Date": date.isoformat(),
        "Steps": run.report["steps"],
        "Counted": len(run.steady),
        "Lines": len(account.lines),
        "Found": sum(bool(line.found) for line in account.lines),
        "Did not wait": len(account.idle) if account.ended_well else "",
    }
    ended = [] if account.ended_well else [tag("p", f"The program ended early: {run.report['error']}", class_="lead")]
    return tag(
        "header",
        tag("p", "torchperf-lint verify --script", class_="over"),
        tag("h1", waits, tag("small", over)),
        *ended,
        tag("p", account_text.headline(account), class_="lead"),
        facts(told),
    )


def _loop(loop: CountedLoop, texts: _Texts) -> Markup:
    if loop.where is None:
        title, about = "Lines that wait", ""
    else:
        title = f"Loop at {texts.sources.place(loop.where)}"
        about = f"{loop.steps} steps counted: {account_text.waits(loop.waits, loop.staged)}."
    rows = [_line(line, texts) for line in loop.lines]
    rows = rows or [tag("tr", tag("td", "No line makes the host wait.", colspan=3, class_="word"))]
    heads = tag("tr", *(tag("th", each, scope="col") for each in ("Waits", "Share", "Line")))
    caption = tag("caption", "Waits per step, and their share of all waits")
    table = tag("table", caption, tag("thead", heads), tag("tbody", *rows), class_="lines")
    return tag("section", tag("h2", title), tag("p", about, class_="about"), _wide(table, title))


def _line(line: WaitingLine, texts: _Texts) -> Markup:
    sources = texts.sources
    staged = f", {plain(line.staged)} staged" if line.staged else ""
    place = f"{sources.place(line.where)}, {account_text.ways(line, sources)}{staged}"
    found = [tag("span", account_text.about(each, line, sources), class_="reason") for each in line.found]
    return tag(
        "tr",
        tag("td", plain(line.waits), class_="wait" if line.waits else None),
        tag("td", percent(line.share)),
        tag(
            "td",
            tag("code", texts.line(*line.where) or "–"),
            tag("span", place, class_="place"),
            *(found or [tag("span", "not found", class_="reason")]),
            class_="word",
        ),
    )


def _not_seen(title: str, found: Sequence[Diagnostic], sources: Sources) -> Markup:
    rows = [tag("li", tag("span", account_text.finding(each, sources), class_="reason")) for each in found]
    shown = tag("ul", *rows) if rows else tag("p", "Nothing.", class_="about")
    return tag("section", tag("h2", title.capitalize()), shown)


def _preview(told: Preview, sources: Sources) -> Markup:
    title = tag("h2", "With the fixes")
    if told.obstacle:
        return tag("section", title, tag("p", told.obstacle, class_="about"))
    head, *rows = account_text.preview_rows(told, sources)
    about = tag("p", account_text.preview_headline(told), class_="about")
    parts = [_table(head, rows), _table(("", "", ""), list(_compared(told)))]
    remarks = [tag("p", each, class_="note") for each in account_text.remarks(told, sources)]
    diffs = [
        each for path, fixed in told.fixes.items() for each in changes(sources.shown(path), fixed.before, fixed.data)
    ]
    return tag("section", title, about, *parts, *remarks, *diffs)


def _compared(told: Preview) -> Iterator[tuple[str, str, str]]:
    for each in told.compared:
        yield each.aspect, each.verdict, "; ".join(each.texts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    heads = [tag("thead", tag("tr", *(tag("th", each, scope="col") for each in head)))] if any(head) else []
    body = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", each, class_="word") for each in others))
        for first, *others in rows
    ]
    return _wide(tag("table", *heads, tag("tbody", *body)), "Without and with the fixes")


def _wide(table: Markup, label: str) -> Markup:
    return tag("div", table, class_="wide", role="region", aria_label=label, tabindex=0)
