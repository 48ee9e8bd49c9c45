"""One line per finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import headline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield `path:row:column: CODE [*] message` for each finding."""
    for diagnostic in diagnostics:
        yield headline(diagnostic, context)
