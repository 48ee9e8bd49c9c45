"""All that is known of each finding, as readable text: the source line with a caret, the evidence and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Safety
from torchperf_lint.report import headline, paint, printable, worth
from torchperf_lint.report.groups import grouped
from torchperf_lint.report.sources import Sources, edit_diff

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from torchperf_lint.engine.findings import Because, Diagnostic, Fix
    from torchperf_lint.report import Context
    from torchperf_lint.syntax.source import Source

MOST_ROWS = 4
"""A longer statement is cut after this many rows."""

MOST_COLUMNS = 160
"""A longer line is cut around the finding."""

_GRADES = {
    Safety.SAFE: "safe, --fix applies it",
    Safety.UNSAFE: "unsafe, --fix --unsafe-fixes applies it",
    Safety.SHOWN: "shown only",
}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of each group of findings, followed by an empty line."""
    sources = Sources(context.read)
    for group in grouped(diagnostics):
        head = group.head
        source = sources.get(head.path)
        margin = " " * max(len(str(each.end_row)) for each in (head, *group.parts))
        yield headline(head, context)
        if source is not None and head.end_row <= len(source.line_starts):
            yield from _snippet(head, source, margin, context)
        yield from _notes(head, margin, context)
        yield from _fix(head.fix, source, margin, context)
        shown, fixes = set(head.because), [head.fix]
        for part in group.parts:
            yield f"{margin} {paint('= also', 'blue', context)} {headline(part, context, short=True)}"
            yield from _notes(part, margin, context, known=shown, like=head)
            if part.fix not in fixes:
                yield from _fix(part.fix, source, margin, context)
            shown.update(part.because)
            fixes.append(part.fix)
        yield ""


def _notes(
    diagnostic: Diagnostic,
    margin: str,
    context: Context,
    known: Collection[Because] = (),
    like: Diagnostic | None = None,
) -> Iterator[str]:
    """What a finding costs and what shows it, without the evidence that is known and a cost `like` another's."""
    weight = _weight(diagnostic)
    if like is None or weight != _weight(like):
        name, said = weight
        yield f"{margin} {paint(f'= {name}:', 'blue', context)} {said}"
    for step in diagnostic.because:
        if step not in known:
            place = f"{printable(step.path or diagnostic.path)}:{step.row}"
            yield f"{margin} {paint('= because:', 'blue', context)} {place}: {printable(step.text)}"


def _weight(diagnostic: Diagnostic) -> tuple[str, str]:
    """The line about a finding's weight: its name and what it says; the severity alone where there is no more."""
    said = worth(diagnostic)
    return ("cost", f"{diagnostic.severity}, {said}") if said else ("severity", diagnostic.severity)


def _snippet(diagnostic: Diagnostic, source: Source, margin: str, context: Context) -> Iterator[str]:
    bar = paint("|", "blue", context)
    yield f"{margin} {bar}"
    last = min(diagnostic.end_row, diagnostic.row + MOST_ROWS - 1)
    for row in range(diagnostic.row, last + 1):
        line = source.line(row)
        indent = len(line) - len(line.lstrip())
        start = diagnostic.column - 1 if row == diagnostic.row else indent
        end = diagnostic.end_column - 1 if row == diagnostic.end_row else len(line.rstrip())
        text, before, under = _cut(line, start, max(end, start + 1))
        number = paint(str(row).rjust(len(margin)), "blue", context)
        yield f"{number} {bar} {text}".rstrip()
        yield f"{margin} {bar} {' ' * before}{paint('^' * under, 'red', context)}"
    if last < diagnostic.end_row:
        yield f"{margin} {bar} ..."


def _cut(line: str, start: int, end: int) -> tuple[str, int, int]:
    """The printed line, the cells before its marked part, and the cells of that part."""
    first = 0 if len(line) <= MOST_COLUMNS else max(0, min(start - MOST_COLUMNS // 4, len(line) - MOST_COLUMNS))
    shown = line[first : first + MOST_COLUMNS]
    before, marked = (printable(each) for each in (line[first:start], line[start : min(end, first + MOST_COLUMNS)]))
    head = "..." if first else ""
    tail = "..." if first + MOST_COLUMNS < len(line) else ""
    return head + printable(shown) + tail, len(head) + _cells(before), max(1, _cells(marked))


def _cells(text: str) -> int:
    """The number of terminal cells that a text occupies."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def _fix(fix: Fix | None, source: Source | None, margin: str, context: Context) -> Iterator[str]:
    if fix is None:
        return
    yield f"{margin} {paint('= fix:', 'blue', context)} {printable(fix.message)} ({_GRADES[fix.safety]})"
    if fix.assumes:
        yield f"{margin} {paint('= assumes:', 'blue', context)} {printable(fix.assumes)}"
    if source is None or any(edit.end > len(source.utf8) for edit in fix.edits):
        return
    bar = paint("|", "blue", context)
    for line in edit_diff(source, fix.edits):
        yield f"{margin} {bar} {paint(printable(line), 'green' if line[0] == '+' else 'red', context)}"
