"""The report of a verification as one self-contained page: figures first, then rule by rule."""

from __future__ import annotations

import datetime
from collections import Counter
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from torchperf_lint.engine.replacing import write_atomically
from torchperf_lint.verify.page import plots
from torchperf_lint.verify.page.entries import entries_of, on_gpu
from torchperf_lint.verify.page.markup import Markup, document, facts, join, plain, short, tag
from torchperf_lint.verify.page.sections import rule_section
from torchperf_lint.verify.page.timelines import timelines
from torchperf_lint.verify.pairs import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchperf_lint.verify.page.entries import Entry
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.step_times import StepTimes

NAME = "report.html"
NO_GPU = "No GPU has measured this."


def write(proofs: Sequence[Proof], folder: Path, times: Sequence[StepTimes | None] = ()) -> Path:
    """Write the page into a folder, made if need be; `times` are those of the proofs, in the same order."""
    return write_page(page(proofs, times, today()), folder)


def write_page(text: str, folder: Path) -> Path:
    """Write any page into a folder, made if need be."""
    path = prepare(folder)
    write_atomically(str(path), text.encode())
    return path


def today() -> datetime.date:
    """The date that a page written now has."""
    return datetime.datetime.now(datetime.timezone.utc).date()


def prepare(folder: Path) -> Path:
    """Make sure that the page can be written into a folder, made if need be; raise OSError if it cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.touch()
    return path


def page(proofs: Sequence[Proof], times: Sequence[StepTimes | None], date: datetime.date) -> str:
    """The text of the page; the same for the same proofs and date."""
    entries = entries_of(proofs, times)
    sections = [
        rule_section(rule, list(members))
        for rule, members in groupby(entries, key=lambda entry: entry.proof.case.workload.rule)
    ]
    title = "torchperf-lint verify: waits before and after the fixes"
    return document(title, [_header(entries, date), *_figures(entries), *sections])


# ---- the top of the page


def _header(entries: Sequence[Entry], date: datetime.date) -> Markup:
    gained = [entry for entry in entries if entry.accepted_fix]
    parts = [tag("p", "torchperf-lint verify", class_="over")]
    if gained:
        waits = [[each.waits for each in entry.counts().values()] for entry in gained]
        before, after = (sum((each[place] for each in waits), Fraction(0)) for place in (0, -1))
        parts += [
            tag("h1", tag("span", _whole(before), class_="wait"), " → ", _whole(after), tag("small", "waits per step")),
            tag(
                "p",
                f"So often does the host stand still for the device in one step of {_each(len(gained))} whose fixes "
                "are accepted, before the fixes and after them. All programs are added up.",
                class_="lead",
            ),
        ]
    else:
        parts.append(tag("h1", "No fix was accepted." if entries else "Nothing was run."))
    return tag("header", *parts, _facts(entries, date))


def _whole(waits: Fraction) -> str:
    return plain(round(waits)) if waits >= 10 else short(waits)


def _each(programs: int) -> str:
    return "the one program" if programs == 1 else f"each of the {programs} programs"


def _facts(entries: Sequence[Entry], date: datetime.date) -> Markup:
    devices = [run.report["device"] for entry in entries for run in entry.proof.runs.values() if run.report["device"]]

    def known(key: str) -> str:
        return ", ".join(sorted({str(device[key]) for device in devices if key in device}))

    verdicts = Counter(entry.proof.verdict for entry in entries)
    rules = {entry.proof.case.workload.rule.code for entry in entries}
    told = {
        "Device": known("name"),
        "torch": known("torch"),
        "torchmetrics": known("torchmetrics"),
        "Python": known("python"),
        "Date": date.isoformat(),
        "Rules": len(rules),
        "Programs": len(entries),
        **{f"{verdict[:1].upper()}{verdict[1:]}": verdicts[verdict] for verdict in VERDICTS},
    }
    return facts(told)


def _figures(entries: Sequence[Entry]) -> list[Markup]:
    if not entries:
        return []
    figures = []
    gained = [entry for entry in entries if entry.accepted_fix]
    if gained:
        best = max(gained, key=lambda entry: entry.removed())
        figures.append(
            _figure(
                "The program that gains most",
                join([tag("b", best.proof.case.workload.rule.code), f" {best.name}"]),
                timelines(best),
            )
        )
    legend = tag(
        "ul",
        tag("li", tag("i", class_="dot before"), "unfixed"),
        tag("li", tag("i", class_="dot between"), "--fix, where more follows"),
        tag("li", tag("i", class_="dot after"), "all fixes"),
        tag("li", "on a scale of square roots"),
        class_="legend",
    )
    figures.append(_figure("Waits per step, before and after", legend, plots.waits(entries)))
    figures.append(_times(entries))
    return figures


def _times(entries: Sequence[Entry]) -> Markup:
    if any(entry.times for entry in entries):
        meaning = (
            "How many times as long a step takes unfixed as fixed: right of 1 the fix saves time. "
            "The bar is the 95 % interval; an interval that holds 1 shows no difference."
        )
        return _figure("Step times", meaning, plots.step_times(entries))
    if any(on_gpu(entry.proof) for entry in entries):
        return _figure("Step times", "The steps of these programs were not timed.", "")
    return _figure("Step times", f"{NO_GPU} A simulated device counts waits, and tells nothing about time.", "")


def _figure(title: str, meaning: str, drawing: str) -> Markup:
    about = tag("div" if isinstance(meaning, Markup) else "p", meaning, class_="about")
    return tag("section", tag("h2", title), about, drawing, class_="figure")
