"""The default format: few findings with all that is known of them, many as one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import MOST_IN_FULL, full, headline
from torchperf_lint.report.concise import elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of `full`, or more than MOST_IN_FULL lines `path:row:column: severity CODE [*] message`."""
    found = list(diagnostics)
    if len(found) <= MOST_IN_FULL:
        yield from full.render(found, context)
        return
    for each in found:
        yield headline(each, context, severity=True) + elsewhere(each)
    yield ""
