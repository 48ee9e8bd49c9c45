"""Findings as logging commands of Azure Pipelines, which lists them beside the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Severity
from torchperf_lint.report import NOT_CHECKED, printable, weighed_message
from torchperf_lint.report.identity import absolute, region_in_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield a command for each finding, then for each file that could not be checked."""
    for each in diagnostics:
        kind = "error" if each.severity == Severity.ERROR.value else "warning"  # Azure knows no milder one
        row, column, *_ = region_in_file(each)
        yield _command(kind, each.path, row, column, each.code, weighed_message(each))
    for failure in context.failures:
        yield _command("error", failure.path, failure.row or 1, failure.column or 1, NOT_CHECKED, failure.reason)


def _command(kind: str, path: str, row: int, column: int, code: str, message: str) -> str:
    place = f"sourcepath={_property(absolute(path))};linenumber={row};columnnumber={column};code={code};"
    return f"##vso[task.logissue type={kind};{place}]{_data(message)}"


def _data(text: str) -> str:
    # The percent sign first: it begins the escapes of the others.
    return printable(text.replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(";", "%3B").replace("]", "%5D")
