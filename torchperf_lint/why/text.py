"""The answer of `why` for people: short sentences, some twenty lines for a usual row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import opening, printable
from torchperf_lint.why.answer import Cause, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.why.answer import Answer, Known, StatementAnswer, Verdict

_MOST_VALUES = 8
_MOST_SHOWN_BY = 2
"""Rows of evidence for one value."""


def render(answer: Answer) -> Iterator[str]:
    """Yield the lines of an answer."""
    place = f"{answer.path}:{answer.row}" + (f":{answer.column}" if answer.column is not None else "")
    yield f"{opening(place)}: {printable(answer.text)}"
    for note in answer.notes:
        yield f"note: {printable(note)}"
    for statement in answer.statements:
        yield ""
        yield from _how_often(statement)
        yield from _values(statement)
    if answer.statements:
        yield ""
        yield from _rules(answer)


def _how_often(statement: StatementAnswer) -> Iterator[str]:
    often = statement.how_often
    yield often.says
    last = len(often.steps) - 1
    for position, step in enumerate(often.steps):
        missing = "missing: " if not often.hot and position == last else ""
        yield f"  {_at(step, missing)}"


def _values(statement: StatementAnswer) -> Iterator[str]:
    shown = [known for known in statement.values if known.matters]
    others: dict[str, list[str]] = {}
    for known in statement.values:
        if not known.matters:
            others.setdefault(known.kind, []).append(f"`{known.text}`")
    if not statement.values:
        return
    yield ""
    yield "Values:"
    told: set[Because] = set()
    for known in shown[:_MOST_VALUES]:
        yield from _value(known, told)
    if len(shown) > _MOST_VALUES:
        yield f"  and {len(shown) - _MOST_VALUES} more, with --output-format json"
    for kind, texts in others.items():
        yield printable(f"  {', '.join(texts)}: {kind}")


def _value(known: Known, told: set[Because]) -> Iterator[str]:
    """A value with its evidence; a row of evidence that another value has shown is not shown again."""
    words = "not known" if known.kind == "unknown" else known.kind
    new = [step for step in (*known.because[:_MOST_SHOWN_BY], *known.lost) if step not in told]
    told.update(new)
    if known.device is None and known.kind != "unknown" and known.lost:
        words += ", its device is not known"
    yield printable(f"  `{known.text}`: {words}")
    for step in new:
        yield f"    {_at(step, 'lost: ' if step in known.lost else '')}"


def _rules(answer: Answer) -> Iterator[str]:
    yield "Rules:"
    cold = [each for each in answer.verdicts if each.cause is Cause.FREQUENCY]
    formal = [each for each in answer.verdicts if each.cause is Cause.FORM]
    alike: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in answer.verdicts:
        if verdict.state is not State.SILENT:
            yield from _found(verdict)
        elif verdict not in cold and verdict not in formal:
            alike.setdefault((verdict.text, verdict.says), []).append(verdict)
    for (text, says), verdicts in alike.items():
        yield from _silent(text, says, verdicts)
    if answer.if_hot:
        are = "is" if len(answer.if_hot) == 1 else "are"
        yield f"  {', '.join(answer.if_hot)} {are} silent, since the row is not known to run in every step."
        yield "  If it ran in every step, there would be a finding."
    rest = sorted({f"{each.code} {each.name}" for each in cold} - {*answer.if_hot})
    if rest and not answer.if_hot:
        yield f"  silent, since the row is not known to run in every step: {', '.join(rest)}."
        yield "  If it ran in every step, they would be silent as well."
    if formal and len(formal) == len(answer.verdicts):
        names = sorted({f"{each.code} {each.name}" for each in formal})
        yield f"  looked at it, and its form is not what they are about: {', '.join(names)}"
    if not answer.verdicts:
        yield "  No rule has anything to judge in this row."


def _silent(text: str, says: str, verdicts: list[Verdict]) -> Iterator[str]:
    """The rules that are silent about a place for the same reason, which the first one's page states."""
    names = ", ".join(f"{each.code} {each.name}" for each in verdicts)
    yield printable(f"  {names} {'is' if len(verdicts) == 1 else 'are'} silent about `{text}`:")
    section = f' (see "{verdicts[0].section}" on its page)' if verdicts[0].section else ""
    yield printable(f"    {says}{section}")


def _found(verdict: Verdict) -> Iterator[str]:
    """A rule that finds something, and what may keep that from the report."""
    name, finding = f"{verdict.code} {verdict.name}", verdict.finding
    assert finding is not None
    if verdict.state is State.REPORTED:
        yield printable(f"  {name} reports it: {verdict.says}")
    elif verdict.state is State.SUPPRESSED:
        yield printable(f"  {name} finds it, but {verdict.says}: {finding.message}")
    else:
        yield printable(f"  {name} would report it, but {verdict.says}: {finding.message}")


def _at(step: Because, word: str) -> str:
    return printable(f"{word}{step.path}:{step.row}: {step.text}")
