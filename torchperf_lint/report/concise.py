"""One line per finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import headline, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield `path:row:column: CODE [*] message` for each finding, with its evidence in other files."""
    for diagnostic in diagnostics:
        yield headline(diagnostic, context) + elsewhere(diagnostic)


def elsewhere(diagnostic: Diagnostic) -> str:
    """The first place of evidence in each other file; empty where there is none."""
    places: dict[str, int] = {}
    for step in diagnostic.because:
        if step.path is not None:
            places.setdefault(step.path, step.row)
    listed = ", ".join(f"{printable(path)}:{row}" for path, row in places.items())
    return f" (see {listed})" if listed else ""
