"""The findings at a glance: by rule and by file, what can be fixed, where to begin and what to type next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import CellPath, Confidence
from torchperf_lint.report import of_severity, paint, printable
from torchperf_lint.report.commands import next_commands
from torchperf_lint.report.ranking import NO_FIX, files, grade, grades, places_to_begin, severities
from torchperf_lint.report.statistics import tallies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context
    from torchperf_lint.report.groups import Group

MOST_LINES = 10
"""A longer list of rules or files is cut, so that the overview fits on a screen."""

_HOW = {
    "safe": "--fix applies them",
    "unsafe": "--fix --unsafe-fixes applies them; read them first",
    "shown": "shown with the finding, never written",
    NO_FIX: "to be changed by hand; `torchperf-lint why FILE:LINE` says why",
}
_HOW_IN_CELLS = {**_HOW, NO_FIX: "to be changed by hand; `torchperf-lint why 'FILE:cell 3:LINE'` says why"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the sections of the overview; nothing where nothing is found."""
    found = list(diagnostics)
    if not found:
        return
    levels = severities(found)
    likely = sum(each.confidence is Confidence.LIKELY for each in found)
    proven = f"{len(found) - likely} proven, {likely} likely" if likely else "all proven"
    yield f"{_counted(levels, context)}; {proven}."
    yield ""
    yield from _rules(found, context)
    yield from _files(found, context)
    yield paint("Fixes", "bold", context)
    counts = {name: count for name, count in grades(found).items() if count}
    width = max(len(str(count)) for count in counts.values())
    only_in_notebooks = all(isinstance(each.path, CellPath) for each in found if each.fix is None)
    how = _HOW_IN_CELLS if only_in_notebooks else _HOW
    for name, count in counts.items():
        yield from _folded(f"  {count:>{width}}  {name:<6}  ", how[name], context)
    yield ""
    yield paint("Begin with", "bold", context)
    for number, group in enumerate(places_to_begin(found), 1):
        yield from _place(number, group, context)
    yield ""
    yield paint("Next", "bold", context)
    for number, command in enumerate(next_commands(found, context)):
        yield f"  {paint(command.line, 'bold' if number == 0 else 'dim', context)}"
        yield from _folded(" " * 6, command.does, context)


def _rules(found: Sequence[Diagnostic], context: Context) -> Iterator[str]:
    yield f"{paint('By rule', 'bold', context)} (each with the severity and cost of its weightiest finding)"
    counted = tallies(found, context)
    shown = counted[:MOST_LINES]
    count_width = max(len(str(each.found)) for each in shown)
    name_width = max(len(each.name) for each in shown)
    severity_width = max(len(each.severity) for each in shown)
    for each in shown:
        severity = of_severity(each.severity.ljust(severity_width), each.severity, context)
        fixable = "" if not each.fixable else "[*]" if each.fixable == each.found else f"[*] {each.fixable}"
        line = (
            f"  {each.found:>{count_width}}  {each.code}  {each.name:<{name_width}}  {severity}  {each.cost or '-':<27}"
        )
        yield f"{line}  {paint(fixable, 'cyan', context)}".rstrip()
    yield from _rest(len(counted) - len(shown), "rule", "--statistics")


def _files(found: Sequence[Diagnostic], context: Context) -> Iterator[str]:
    yield paint("By file", "bold", context)
    counted = files(found)
    shown = counted[:MOST_LINES]
    count_width = max(len(str(each.found)) for each in shown)
    paths = [_fitting(printable(each.path), count_width + 6, context, tail=True) for each in shown]
    for path, each in zip(paths, shown, strict=True):
        split = f" ({_counted(each.severities, context)})" if context.width is None else ""
        yield f"  {each.found:>{count_width}}  {path}{split}"
    yield from _rest(len(counted) - len(shown), "file", "--output-format grouped")


def _rest(count: int, what: str, option: str) -> Iterator[str]:
    if count:
        yield f"  ... and {count} more {what}{'' if count == 1 else 's'} ({option})"
    yield ""


def _place(number: int, group: Group, context: Context) -> Iterator[str]:
    head = group.head
    others = f" and {len(group.parts)} more of the same cause" if group.parts else ""
    place = f"{printable(head.path)}:{head.row}:{head.column}"
    yield f"  {number}. {paint(place, 'bold', context)} {paint(head.code, 'red', context)}{others}"
    fix = "no fix" if head.fix is None else f"{grade(head)} fix"
    cost = [] if head.cost is None else [str(head.cost)]
    facts = ", ".join([*cost, head.confidence.value, fix])
    yield f"     {of_severity(head.severity, head.severity, context)}, {facts}"
    yield f"     {_fitting(printable(head.message), 5, context)}"


def _counted(counts: Mapping[str, int], context: Context) -> str:
    """`3 errors, 1 note`."""
    return ", ".join(
        of_severity(f"{count} {name}{'' if count == 1 else 's'}", name, context)
        for name, count in counts.items()
        if count
    )


def _folded(beginning: str, text: str, context: Context) -> Iterator[str]:
    """A text of ours behind a beginning, in as many lines as the terminal's width asks for."""
    room = len(text) if context.width is None else max(context.width - len(beginning), 20)
    for line in textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False):
        yield beginning + line
        beginning = " " * len(beginning)


def _fitting(text: str, used: int, context: Context, *, tail: bool = False) -> str:
    """`text` cut to the terminal's width less the columns that are used; of a path the `tail` is kept."""
    room = max((context.width or 0) - used, 20)
    if context.width is None or len(text) <= room:
        return text
    return f"...{text[3 - room :]}" if tail else f"{text[: room - 3]}..."
