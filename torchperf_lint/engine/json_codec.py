"""JSON encoding of reports; decoding validates everything that comes from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import (
    Because,
    Confidence,
    Cost,
    Diagnostic,
    Edit,
    Failure,
    Fix,
    Loss,
    Rate,
    Safety,
)
from torchperf_lint.engine.runner import FileReport

if TYPE_CHECKING:
    from collections.abc import Sequence


def plain_report(report: FileReport) -> list[Any]:
    """The report without its path."""
    failure = report.failure
    return [
        [_plain_diagnostic(each) for each in report.diagnostics],
        None if failure is None else [failure.row, failure.column, failure.reason],
    ]


def report_of(plain: Any, path: str) -> FileReport:
    """The report that `plain_report` encoded, for the file at `path`; raise ValueError for anything else."""
    match plain:
        case [[*found], None]:
            failure = None
        case [[*found], [(int() | None) as row, (int() | None) as column, str() as reason]]:
            failure = Failure(path, row, column, reason)
        case _:
            raise ValueError("this is no report")
    return FileReport(tuple(_diagnostic(each, path) for each in found), failure)


def _plain_diagnostic(each: Diagnostic) -> list[Any]:
    fix = each.fix
    return [
        [each.row, each.column, each.end_row, each.end_column, each.start, each.end, *each.noqa_rows],
        each.behind,
        [each.code, each.name, each.severity, each.message, each.confidence.value, each.about],
        None if each.cost is None else [each.cost.rate.value, each.cost.loss.value],
        [list(step) for step in each.because],
        each.no_fix if fix is None else _plain_fix(fix),
    ]


def _plain_fix(fix: Fix) -> list[Any]:
    return [fix.message, fix.safety.value, [_plain_edit(edit) for edit in fix.edits], fix.assumes]


def _plain_edit(edit: Edit) -> list[Any]:
    return [edit.start, edit.end, edit.content.decode("latin-1")]  # lossless for any bytes


def _diagnostic(plain: Any, path: str) -> Diagnostic:
    match plain:
        case [[*numbers], (int() | None) as behind, [*texts], cost, [*steps], fix]:
            row, column, end_row, end_column, start, end, first, last = _all(numbers, int)
            code, name, severity, message, confidence, about = _all(texts, str)
            return Diagnostic(
                path=path,
                row=row,
                column=column,
                end_row=end_row,
                end_column=end_column,
                code=code,
                name=name,
                severity=severity,
                message=message,
                because=tuple(map(_because, steps)),
                fix=None if isinstance(fix, (str, type(None))) else _fix(fix),
                start=start,
                end=end,
                noqa_rows=(first, last),
                cost=None if cost is None else _cost(cost),
                confidence=Confidence(confidence),
                about=about,
                behind=behind,
                no_fix=fix if isinstance(fix, str) else None,
            )
    raise ValueError("this is no diagnostic")


def _cost(plain: Any) -> Cost:
    match plain:
        case [str() as rate, str() as loss]:
            return Cost(Rate(rate), Loss(loss))
    raise ValueError("this is no cost")


def _because(plain: Any) -> Because:
    match plain:
        case [int() as row, str() as text, (str() | None) as path]:
            return Because(row, text, path)
    raise ValueError("this shows nothing")


def _fix(plain: Any) -> Fix:
    match plain:
        case [str() as message, str() as safety, [*edits], str() as assumes]:
            return Fix(message, Safety(safety), tuple(map(_edit, edits)), assumes)
    raise ValueError("this is no fix")


def _edit(plain: Any) -> Edit:
    match plain:
        case [int() as start, int() as end, str() as content]:
            return Edit(start, end, content.encode("latin-1"))
    raise ValueError("this is no edit")


def _all(values: Sequence[Any], kind: type) -> Sequence[Any]:
    if not all(type(each) is kind for each in values):
        raise ValueError("this is no diagnostic")
    return values
