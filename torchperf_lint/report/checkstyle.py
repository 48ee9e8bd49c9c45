"""Findings as a Checkstyle report, which many tools read whatever the language is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from torchperf_lint.report import NOT_CHECKED, weighed_message
from torchperf_lint.report.identity import by_file, region_in_file
from torchperf_lint.report.markup import add, document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context

_SEVERITIES = {"error": "error", "warning": "warning", "note": "info"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of the report; a file that could not be checked has an error of its own."""
    root = ElementTree.Element("checkstyle", version="4.3")
    for file in by_file(diagnostics, context.failures):
        element = add(root, "file", name=file.path)
        for each in file.diagnostics:
            row, column, *_ = region_in_file(each)
            _add_error(element, row, column, _SEVERITIES[each.severity], weighed_message(each), each.code)
        for failure in file.failures:
            _add_error(element, failure.row or 1, failure.column, "error", failure.reason, NOT_CHECKED)
    yield from document(root)


def _add_error(file: ElementTree.Element, row: int, column: int | None, severity: str, message: str, code: str) -> None:
    source = f"torchperf-lint.{code}"
    add(file, "error", line=row, column=column, severity=severity, message=message, source=source)
