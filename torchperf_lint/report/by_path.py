"""One line per finding, below the path of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import CellPath
from torchperf_lint.report import of_severity, opening, paint, printable
from torchperf_lint.report.concise import elsewhere
from torchperf_lint.report.identity import by_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the path of each file with its number of findings, a line for each of these, and an empty line."""
    for file in by_file(diagnostics, ()):
        places = [_place(each) for each in file.diagnostics]
        place_width = max(map(len, places))
        severity_width = max(len(each.severity) for each in file.diagnostics)
        yield f"{paint(opening(file.path), 'bold', context)} ({len(places)})"
        for place, each in zip(places, file.diagnostics, strict=True):
            severity = of_severity(each.severity.ljust(severity_width), each.severity, context)
            star = paint("[*]", "cyan", context) if context.fixable(each) else "   "
            said = f"{printable(each.message)}{elsewhere(each)}"
            yield f"  {place:<{place_width}}  {severity}  {paint(each.code, 'red', context)} {star} {said}"
        yield ""


def _place(diagnostic: Diagnostic) -> str:
    cell = f"cell {diagnostic.path.cell}:" if isinstance(diagnostic.path, CellPath) else ""
    return f"{cell}{diagnostic.row}:{diagnostic.column}"
