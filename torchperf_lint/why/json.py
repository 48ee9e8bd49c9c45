"""The answer of `why` as JSON; `docs/why.md` documents the fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import CellPath

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.why.answer import Answer, Known, StatementAnswer, Verdict


def render(answer: Answer) -> str:
    """The answer as one JSON object."""
    return json.dumps(
        {
            **_path(answer.path),
            "row": answer.row,
            "column": answer.column,
            "text": answer.text,
            "statements": [_statement(each) for each in answer.statements],
            "rules": [_verdict(each) for each in answer.verdicts],
            "if_hot": list(answer.if_hot),
            "notes": list(answer.notes),
        },
        indent=2,
    )


def _statement(statement: StatementAnswer) -> dict[str, Any]:
    often = statement.how_often
    return {
        "row": statement.row,
        "in_every_step": often.hot,
        "says": often.says,
        "steps": [_step(each) for each in often.steps],
        "values": [_value(each) for each in statement.values],
    }


def _value(known: Known) -> dict[str, Any]:
    return {
        "text": known.text,
        "row": known.row,
        "column": known.column,
        "kind": known.kind,
        "device": known.device,
        "because": [_step(each) for each in known.because],
        "lost": [_step(each) for each in known.lost],
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "code": verdict.code,
        "name": verdict.name,
        "row": verdict.row,
        "column": verdict.column,
        "text": verdict.text,
        "state": verdict.state.value,
        "says": verdict.says,
        "cause": None if verdict.cause is None else verdict.cause.value,
        "even_if_hot": verdict.even_then or None,
        "section": verdict.section,
        "asked": list(verdict.asked),
        "message": None if verdict.finding is None else verdict.finding.message,
        "no_fix": None if verdict.finding is None else verdict.finding.no_fix,
    }


def _step(step: Because) -> dict[str, Any]:
    return {**_path(step.path), "row": step.row, "text": step.text}


def _path(path: str | None) -> dict[str, Any]:
    """The file, and the cell of a notebook that the row counts in."""
    return {"path": path.file, "cell": path.cell} if isinstance(path, CellPath) else {"path": path}
