"""Notebooks: each is checked and fixed as one program, which sees the project; reports tell cells and their rows."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.edit_merge import BadEdits, apply_edits
from torchperf_lint.engine.findings import LATER, Because, CellPath, Edit, Failure, NoFix
from torchperf_lint.engine.mishaps import one_line
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.runner import LARGEST, FileReport
from torchperf_lint.syntax.json_cells import OtherLanguage
from torchperf_lint.syntax.notebook import Notebook
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Applied, Diagnostic, Fix
    from torchperf_lint.engine.jobs import Job, Result
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program

LARGEST_NOTEBOOK = 10 * LARGEST
"""Bytes of the largest notebook that is read: most of them are pictures in outputs."""


def run_on_notebook(
    job: Job,
    data: bytes,
    program: Callable[[], Program] | None,
    complete: Callable[[Target, str], Target] | None,
    line_length: Callable[[str], int] | None,
) -> Result:
    """Run a job on a notebook's bytes; as for `run_on`, whose parameters these are.

    The report's places are those of the notebook's program. It is never stored: it has no fingerprint.
    """
    from torchperf_lint.engine.jobs import Action, Result, run_on_python

    def failed(reason: str) -> Result:
        return Result(job.path, FileReport((), Failure(job.path, None, None, reason)))

    if len(data) > LARGEST_NOTEBOOK:
        return failed(f"larger than {LARGEST_NOTEBOOK // 1_000_000} MB, not checked")
    try:
        notebook = Notebook(job.path, data)
    except OtherLanguage:  # as a file that is no Python; one that is named was refused before
        return Result(job.path, FileReport())
    except Unreadable as error:
        return failed(f"not checked: {one_line(error.reason)}")

    @functools.cache
    def around() -> Program:
        assert program is not None
        return program().with_file(job.path, notebook.program)

    job = job._replace(keeps=False)
    seen = None if program is None else around

    def judged(each: Job) -> Result:
        return run_on_python(each, notebook.program, seen, None, complete, line_length)

    job = job._replace(report_unused=job.report_unused and not notebook.spoilt)
    result = judged(job)
    after = _written(notebook, result.data) if result.data and result.data != notebook.program else data
    if after is None:  # a fix has taken away what tells the cells apart
        result, after = judged(job._replace(action=Action.CHECK)), data
        left = tuple(each for each in result.report.diagnostics if (each.code, each.start) not in job.spared)
        result = result._replace(report=result.report._replace(diagnostics=left))
    if seen is not None and result.data:
        around().forget()
    present = notebook if after == data else Notebook(job.path, after)
    report = _writable(result.report, present)
    return result._replace(
        report=report._replace(failure=report.failure or _failure(notebook)),
        unfixed=_writable(result.unfixed, notebook),
        before=data,
        data=after,
        applied=tuple(_in_its_cell(each, notebook) for each in result.applied),
        fingerprint=None,
    )


def _in_its_cell(applied: Applied, notebook: Notebook) -> Applied:
    """The fix with the cell and the row that its finding had; as it is where only other fixes brought that about."""
    if applied.start == LATER:
        return applied
    place = notebook.place(applied.row, 1)
    return applied._replace(path=CellPath(notebook.path, place.cell), row=place.row)


def _failure(notebook: Notebook) -> Failure | None:
    """What to say of the cells that are not Python."""
    if not notebook.spoilt:
        return None
    (place, reason), *others = notebook.spoilt
    more = f" (and {len(others)} more)" if others else ""
    told = f"cell {place.cell}, line {place.row}: {one_line(reason)}{more}"
    return Failure(notebook.path, None, None, told, (place.cell, place.row, place.column))


def _written(notebook: Notebook, program: bytes) -> bytes | None:
    """The notebook with this program; None where it would not be read as this program again."""
    after = notebook.written(program)
    try:
        return after if after is not None and Notebook(notebook.path, after).program == program else None
    except Unreadable:
        return None


def _writable(report: FileReport, notebook: Notebook) -> FileReport:
    """The report without fixes that the cells cannot take."""

    def checked(found: Diagnostic) -> Diagnostic:
        if found.fix is None:
            return found
        try:
            program = apply_edits(notebook.program, found.fix.edits)
        except BadEdits:
            program = b""
        if _written(notebook, program) is not None:
            return found
        return found._replace(fix=None, no_fix=NoFix.WITHDRAWN.identifier)

    return report._replace(diagnostics=tuple(map(checked, report.diagnostics)))


def rows_of(path: str, data: bytes) -> bytes:
    """The texts of the cells of a notebook that has a report, in the rows that the report refers to."""
    return Notebook(path, data).rows


# -- places for users --------------------------------------------------------------------------------------------------


def in_cells(results: Iterable[Result]) -> list[Result]:
    """The results, in the place of a notebook's one for each cell with findings.

    Its path names the cell, and its data is the cell's source, which rows, columns and offsets refer to.
    """
    shown: list[Result] = []
    for result in results:
        if is_notebook(result.path) and result.report.diagnostics:
            shown += _by_cell(result)
        else:
            shown.append(result)
    return shown


def _by_cell(result: Result) -> Iterator[Result]:
    notebook = Notebook(result.path, result.data)
    cells = told_by_cell(result.report, notebook)
    for cell in sorted(cells):
        source = notebook.source(cell).encode(errors="replace")
        report = FileReport(tuple(told for told, _ in cells[cell]))
        yield result._replace(path=CellPath(result.path, cell), report=report, before=source, data=source)


def told_by_cell(report: FileReport, notebook: Notebook) -> dict[int, list[tuple[Diagnostic, Diagnostic]]]:
    """By the number of a cell, its findings: with the places of the cell, and as the report has them."""
    program = Source(notebook.path, notebook.program)
    cells: dict[int, list[tuple[Diagnostic, Diagnostic]]] = {}
    for found in report.diagnostics:
        cell, told = _told(found, notebook, program)
        cells.setdefault(cell, []).append((told, found))
    return cells


def _told(found: Diagnostic, notebook: Notebook, program: Source) -> tuple[int, Diagnostic]:
    """The number of the cell that the finding is in, and the finding as its own."""
    start, end = notebook.place(found.row, found.column), notebook.place(found.end_row, found.end_column)
    cell, path = start.cell, CellPath(found.path, start.cell)

    def step_told(step: Because) -> Because:
        if step.path is not None:
            return step
        place = notebook.place(step.row, 1)
        elsewhere = None if place.cell == cell else CellPath(found.path, place.cell)
        return step._replace(row=place.row, path=elsewhere)

    return cell, found._replace(
        path=path,
        row=start.row,
        column=start.column,
        end_row=end.row,
        end_column=end.column,
        because=tuple(map(step_told, found.because)),
        fix=None if found.fix is None else _fix(found.fix, cell, notebook, program),
        start=notebook.offset(program, found.start)[1],
        end=notebook.offset(program, found.end)[1],
        noqa_rows=(notebook.place(found.noqa_rows[0], 1).row, notebook.place(found.noqa_rows[1], 1).row),
    )


def _fix(fix: Fix, cell: int, notebook: Notebook, program: Source) -> Fix:
    """The fix with the places of one cell; one of several cells has no edits, which would be half of it."""
    places = [(notebook.offset(program, each.start), notebook.offset(program, each.end)) for each in fix.edits]
    cells: Sequence[int] = sorted({number for both in places for number, _ in both})
    if cells != [cell]:
        listed = ", ".join(map(str, cells))
        return fix._replace(message=f"{fix.message}, in cells {listed}", edits=())
    edits = (
        Edit(start, end, _with_heads(each, notebook, program))
        for ((_, start), (_, end)), each in zip(places, fix.edits, strict=True)
    )
    return fix._replace(edits=tuple(edits))


def _with_heads(edit: Edit, notebook: Notebook, program: Source) -> bytes:
    """What an edit puts, for a cell whose rows begin with what IPython strips: new rows begin with that as well."""
    head = notebook.head(program.row(edit.start)).encode()
    return edit.content.replace(b"\n", b"\n" + head) if head else edit.content
