"""Findings as workflow commands of GitHub Actions, which shows them beside the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import NOT_CHECKED, printable, worth
from torchperf_lint.report.identity import absolute, region_in_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic, Failure
    from torchperf_lint.report import Context

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield one command for each finding, then for each file that could not be checked."""
    for each in diagnostics:
        yield _command(_COMMANDS[each.severity], each.code, each.path, _region(each), _text(each))
    for failure in context.failures:
        yield _command("error", NOT_CHECKED, failure.path, _point(failure), str(failure))


def _command(command: str, code: str, path: str, region: dict[str, int], text: str) -> str:
    properties: dict[str, object] = {"title": f"torchperf-lint ({code})", "file": absolute(path), **region}
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{command} {listed}::{_data(text)}"


def _region(diagnostic: Diagnostic) -> dict[str, int]:
    region = region_in_file(diagnostic)
    rows = {"line": region.row, "endLine": region.end_row}
    if region.row != region.end_row:  # GitHub takes columns within one line only
        return rows
    return {**rows, "col": region.column, "endColumn": region.end_column}


def _point(failure: Failure) -> dict[str, int]:
    places = {"line": failure.row, "col": failure.column if failure.row else None}
    return {name: place for name, place in places.items() if place is not None}


def _text(diagnostic: Diagnostic) -> str:
    lines = [f"{diagnostic.path}:{diagnostic.row}:{diagnostic.column}: {diagnostic.code} {diagnostic.message}"]
    lines += [f"cost: {worth(diagnostic)}"] if worth(diagnostic) else []
    lines += [f"because: {step.path or diagnostic.path}:{step.row}: {step.text}" for step in diagnostic.because]
    lines += [f"fix: {diagnostic.fix.message}"] if diagnostic.fix else []
    lines += [f"assumes: {diagnostic.fix.assumes}"] if diagnostic.fix and diagnostic.fix.assumes else []
    return "\n  ".join(lines)


def _data(text: str) -> str:
    # The percent sign first: it begins the escapes of the others.
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
