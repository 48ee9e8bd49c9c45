"""The answer of `why` for people: short sentences, some twenty lines for a usual row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import NoFix
from torchperf_lint.report import opening, printable
from torchperf_lint.why.answer import Cause, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.why.answer import Answer, Known, StatementAnswer, Verdict

_MOST_VALUES = 8
_NOT_HOT = "since the row is not known to run in every step"
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
    others = [each for each in answer.verdicts if each.cause is not Cause.USE and each not in formal]
    alike: dict[tuple[str, str], dict[str, Verdict]] = {}  # by place and reason, then by rule
    for verdict in answer.verdicts:
        if verdict.state is not State.SILENT:
            yield from _found(verdict)
        elif verdict not in cold and verdict not in formal and not (verdict.cause is Cause.USE and others):
            alike.setdefault((verdict.text, verdict.says), {})[verdict.code] = verdict
    places: dict[tuple[tuple[str, ...], str], list[str]] = {}  # by rules and reason
    for (text, says), by_rule in alike.items():
        places.setdefault((tuple(by_rule), says), []).append(f"`{text}`")
    for (codes, says), texts in places.items():
        yield from _silent(texts, [alike[texts[0][1:-1], says][code] for code in codes])
    if answer.if_hot:
        yield f"  {_are_silent(answer.if_hot)}, {_NOT_HOT}."
        yield "    If it ran in every step, there would be a finding."
    even_then: dict[str, list[str]] = {}
    for verdict in () if answer.if_hot else cold:
        name = f"{verdict.code} {verdict.name}"
        if verdict.even_then and name not in even_then.setdefault(verdict.even_then, []):
            even_then[verdict.even_then].append(name)
    for says, names in even_then.items():
        yield f"  {_are_silent(names)}, {_NOT_HOT}."
        yield printable(f"    If it ran in every step, there would still be none: {says}")
    if cold and len(cold) == len(answer.verdicts) and not answer.if_hot and not even_then:
        yield "  No rule would find anything in this row if it ran in every step."
    if formal and len(formal) == len(answer.verdicts):
        names = sorted({f"{each.code} {each.name}" for each in formal})
        yield f"  looked at it, and its form is not what they are about: {', '.join(names)}"
    if not answer.verdicts:
        yield "  No rule has anything to judge in this row."


def _are_silent(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} silent"


def _silent(texts: list[str], verdicts: list[Verdict]) -> Iterator[str]:
    """The rules that are silent about some places for the same reason, which the first one's page states."""
    names = [f"{each.code} {each.name}" for each in verdicts]
    yield printable(f"  {_are_silent(names)} about {' and '.join(texts)}:")
    section = f' (see "{verdicts[0].section}" on its page)' if verdicts[0].section else ""
    yield printable(f"    {verdicts[0].says}{section}")


def _found(verdict: Verdict) -> Iterator[str]:
    """A rule that finds something, and what may keep that from the report."""
    name, finding = f"{verdict.code} {verdict.name}", verdict.finding
    assert finding is not None
    if verdict.state is State.REPORTED:
        yield printable(f"  {name} reports it: {verdict.says}")
        reason = next((each for each in NoFix if each.identifier == finding.no_fix), None)
        if reason is not None:
            yield f"    no fix ({reason.identifier}): {reason.value}"
    elif verdict.state is State.SUPPRESSED:
        yield printable(f"  {name} finds it, but {verdict.says}: {finding.message}")
    else:
        yield printable(f"  {name} would report it, but {verdict.says}: {finding.message}")


def _at(step: Because, word: str) -> str:
    return printable(f"{word}{step.path}:{step.row}: {step.text}")
