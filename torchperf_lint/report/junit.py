"""Findings as a JUnit report: a suite for each file, a failed case for each finding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from torchperf_lint.report import NOT_CHECKED, placed_message
from torchperf_lint.report.identity import absolute, by_file, region_in_file
from torchperf_lint.report.markup import add, document, holdable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context
    from torchperf_lint.report.identity import OfFile

_TOOL, _PACKAGE = "torchperf-lint", "org.torchperf-lint"


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the lines of the report; a file that could not be checked is a case with an error."""
    files = by_file(diagnostics, context.failures)
    failures, errors = sum(len(each.diagnostics) for each in files), sum(len(each.failures) for each in files)
    root = ElementTree.Element("testsuites", {"name": _TOOL, **_counts(failures, errors)})
    for each in files:
        _add_suite(root, each)
    if not files:  # readers take a report without any case for a mistake
        suite = add(root, "testsuite", name=_TOOL, **_counts(0, 0), package=_PACKAGE)
        add(suite, "testcase", name="No findings", classname=_TOOL)
    yield from document(root)


def _counts(failures: int, errors: int) -> dict[str, str]:
    tests = max(failures + errors, 1)
    return {"tests": str(tests), "skipped": "0", "failures": str(failures), "errors": str(errors)}


def _add_suite(root: ElementTree.Element, file: OfFile) -> None:
    path = absolute(file.path)
    stem = os.path.splitext(path)[0]
    counts = _counts(len(file.diagnostics), len(file.failures))
    suite = add(root, "testsuite", name=path, **counts, package=_PACKAGE)
    for each in file.diagnostics:
        name = f"{_PACKAGE}.{each.code}"
        row, column, *_ = region_in_file(each)
        case = add(suite, "testcase", name=name, classname=stem, line=row, column=column)
        properties = add(case, "properties")
        cost = "" if each.cost is None else str(each.cost)
        for name, value in (("severity", each.severity), ("cost", cost), ("confidence", each.confidence.value)):
            if value:
                add(properties, "property", name=name, value=value)
        lines = [f"line {row}, col {column}, {placed_message(each)}"]
        lines += [f"because: {step.path or each.path}:{step.row}: {step.text}" for step in each.because]
        add(case, "failure", message=placed_message(each), type=each.code).text = holdable("\n".join(lines))
    for failure in file.failures:
        name = f"{_PACKAGE}.{NOT_CHECKED}"
        case = add(suite, "testcase", name=name, classname=stem, line=failure.row, column=failure.column)
        add(case, "error", message=failure.reason, type=NOT_CHECKED).text = holdable(str(failure))
