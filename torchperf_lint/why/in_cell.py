"""The answer about a row of a notebook's cell: asked about the notebook's program, and told in places of cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import CellPath
from torchperf_lint.syntax.notebook import Notebook
from torchperf_lint.syntax.source import Unreadable
from torchperf_lint.why.answer import silenced_by
from torchperf_lint.why.asking import ask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.config import Settings
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.why.answer import Answer, Known, StatementAnswer, Verdict


def ask_in_cell(
    path: str,
    data: bytes,
    cell: int,
    row: int,
    column: int | None,
    settings: Settings,
    cache: str | None = None,
    own_versions: bool = True,
) -> Answer:
    """As `ask`, about a row of a cell; raise Unreadable also where there is no such cell or it does not parse."""
    notebook = Notebook(path, data)
    if cell not in (each.number for each in notebook.cells):
        raise Unreadable(f"there is no code cell {cell}")
    for place, reason in notebook.spoilt:
        if place.cell == cell:
            raise Unreadable(f"cell {cell}, line {place.row}: {reason}")
    rows = notebook.rows_in(cell) or [""]
    if not 1 <= row <= len(rows):
        raise Unreadable(f"there is no row {row}: cell {cell} has {len(rows)}")
    line = rows[row - 1].rstrip("\r\n")
    if column is not None and not 1 <= column <= max(len(line), 1):
        raise Unreadable(f"there is no column {column} in row {row}: it has {len(line)}")
    at, column_there = notebook.in_program(cell, row, column or 1)
    asked = None if column is None else column_there
    answer = ask(path, notebook.program, at, asked, settings, cache, own_versions)
    told = _Told(path, notebook)
    return answer._replace(
        path=CellPath(path, cell),
        row=row,
        column=column,
        text=line.strip(),
        statements=tuple(map(told.statement, answer.statements[notebook.is_below_magic(at) :])),
        verdicts=tuple(map(told.verdict, answer.verdicts)),
    )


class _Told:
    """Parts of an answer about the program, with the places of the cells."""

    def __init__(self, path: str, notebook: Notebook) -> None:
        self._path = path
        self._notebook = notebook

    def statement(self, statement: StatementAnswer) -> StatementAnswer:
        often = statement.how_often
        return statement._replace(
            row=self._notebook.place(statement.row, 1).row,
            how_often=often._replace(steps=self._steps(often.steps)),
            values=tuple(self._known(each) for each in statement.values if not self._notebook.stands_for(each.text)),
        )

    def verdict(self, verdict: Verdict) -> Verdict:
        _, row, column = self._notebook.place(verdict.row, verdict.column)
        says = verdict.says
        if verdict.comment is not None:
            says = silenced_by(self._notebook.place(verdict.comment[0], 1).row, verdict.comment[1])
        return verdict._replace(row=row, column=column, says=says)

    def _known(self, known: Known) -> Known:
        _, row, column = self._notebook.place(known.row, known.column)
        return known._replace(row=row, column=column, because=self._steps(known.because), lost=self._steps(known.lost))

    def _steps(self, steps: Iterable[Because]) -> tuple[Because, ...]:
        return tuple(map(self._step, steps))

    def _step(self, step: Because) -> Because:
        if step.path != self._path:
            return step
        place = self._notebook.place(step.row, 1)
        return step._replace(row=place.row, path=CellPath(self._path, place.cell))
