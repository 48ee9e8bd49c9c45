"""One line per finding as pylint prints it: `path:row: [CODE] message`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import file_of
from torchperf_lint.report import NOT_CHECKED, opening, printable, weighed_message
from torchperf_lint.report.identity import row_in_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield a line for each finding, then for each file that could not be checked."""
    for each in diagnostics:
        yield _line(each.path, row_in_file(each.path, each.row), each.code, weighed_message(each))
    for failure in context.failures:
        yield _line(failure.path, failure.row or 1, NOT_CHECKED, failure.reason)


def _line(path: str, row: int, code: str, message: str) -> str:
    return f"{opening(file_of(path))}:{row}: [{code}] {printable(message)}"
