"""What each rule makes of a row: a finding, or the condition that keeps it silent."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Severity
from torchperf_lint.engine.runner import diagnostic_of, may_speak
from torchperf_lint.engine.suppress import Suppressions
from torchperf_lint.syntax.site import Site, first_row
from torchperf_lint.why.answer import Cause, State, Verdict, silenced_by
from torchperf_lint.why.places import about_of
from torchperf_lint.why.reasons import BY_FORM, NOT_HOT, NOT_THERE, Reasons
from torchperf_lint.why.recorder import Recorder
from torchperf_lint.why.sections import section_for
from torchperf_lint.why.values import short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.model import Model
    from torchperf_lint.why.inside import Inside
    from torchperf_lint.why.opening import Opened
    from torchperf_lint.why.recorder import Decision, Place


class Judged(NamedTuple):
    """The verdicts on a row.

    `if_hot` are the rules that would find something if it ran in every step, `broken` what went wrong in rules.
    """

    verdicts: tuple[Verdict, ...]
    if_hot: tuple[str, ...]
    broken: tuple[str, ...]


class Judge:
    """Runs the rules on a file, watched, and tells what each of them makes of some statements."""

    def __init__(
        self, opened: Opened, inside: Inside, statements: list[ast.stmt], row: int, column: int | None = None
    ) -> None:
        """With `column`, only what stands at this column of the row is told."""
        self._opened = opened
        self._inside = inside
        self._statements = statements
        self._source = opened.source
        self._suppressions = Suppressions(opened.source)
        self._is_hot = all(inside.hot_path(each) is not None for each in statements)
        self._offset: int | None = None
        if column is not None:
            before = opened.source.line(row)[: column - 1]
            self._offset = opened.source.line_starts[row - 1] + len(before.encode())

    def judge(self) -> Judged:
        """The verdicts of all rules that the file wakes, in the order of places and codes."""
        verdicts: list[Verdict] = []
        cold: list[Rule] = []
        broken: list[str] = []
        for rule in self._opened.triggered:
            try:
                found = self._verdicts(rule)
            except Exception as error:
                broken.append(f"{rule.code} {rule.name} fails: {type(error).__name__}")
                continue
            if any(each.verdict.cause is Cause.FREQUENCY and self._is_asked(each.span) for each in found):
                cold.append(rule)
            verdicts += [each.verdict for each in found if self._is_asked(each.span)]
        if_hot: list[Rule] = []
        for rule in cold:
            reports, reason = self._if_hot(rule)
            if reports:
                if_hot.append(rule)
            elif reason is not None:
                verdicts = [
                    each._replace(even_then=reason)
                    if each.code == rule.code and each.cause is Cause.FREQUENCY
                    else each
                    for each in verdicts
                ]
        verdicts.sort(key=lambda each: (each.row, each.column, each.state is State.SILENT, each.code))
        return Judged(tuple(verdicts), tuple(f"{rule.code} {rule.name}" for rule in if_hot), tuple(broken))

    def _if_hot(self, rule: Rule) -> tuple[bool, str | None]:
        """Whether the rule would find something if the row ran in every step; if not, what else keeps it silent."""
        model = self._inside.as_if_hot(self._statements)
        recorder = Recorder(about_of(self._inside, model, self._statements))
        try:
            findings = recorder.watch(lambda: list(rule.check(model)))
        except Exception:
            return False, None
        spans = [(each.site.start, each.site.end) for each in findings if self._stands_here(each.site, model)]
        if any(map(self._is_asked, spans)):
            return True, None
        of_row = [each for each in recorder.decisions if each.place is not None]
        reasons = Reasons(model, short)
        for span, decisions in self._by_place(of_row).items():
            told = reasons.last(decisions) if self._is_asked(span) else None
            if told is not None and told[0].cause in (Cause.DEVICE, Cause.MEANING):
                return False, told[0].says
            if told is not None and told[0] is NOT_HOT:
                return False, NOT_THERE.says
        return False, None

    def _is_asked(self, span: tuple[int, int]) -> bool:
        return self._offset is None or span[0] <= self._offset < span[1]

    def _stands_here(self, site: Site, model: Model) -> bool:
        return self._inside.statement_of(model, site) in self._statements

    # -- one rule --------------------------------------------------------------------------------------------------

    def _verdicts(self, rule: Rule) -> list[_Found]:
        model = self._inside.model()
        recorder = Recorder(about_of(self._inside, model, self._statements))
        findings = recorder.watch(lambda: list(rule.check(model)))
        found: list[_Found] = []
        reported: list[tuple[int, int]] = []
        for finding in findings:
            if self._stands_here(finding.site, model):
                diagnostic = diagnostic_of(rule, finding, self._source, model)
                reported.append((finding.site.start, finding.site.end))
                found.append(_Found(self._reported(rule, diagnostic), reported[-1]))
        reasons = Reasons(model, short)
        decisions_of_row = [each for each in recorder.decisions if each.place is not None]
        for span, decisions in self._by_place(decisions_of_row).items():
            if any(_holds(each, span) or _holds(span, each) for each in reported):
                continue
            told = reasons.last(decisions)
            if told is None or (reported and all(isinstance(each.place, _PARTS) for each in decisions)):
                continue
            if isinstance(told[1].place, ast.expr) and any(isinstance(each.place, ast.stmt) for each in decisions):
                span = self._span(told[1].place)
            row, column = self._source.position(span[0])
            reason = NOT_THERE if told[0] is NOT_HOT and self._is_hot else told[0]
            says = reason.says
            verdict = Verdict(
                rule.code,
                rule.name,
                row,
                column,
                self._text(span),
                State.SILENT,
                says,
                section_for(rule, says),
                tuple(reasons.asked(decisions)),
                reason.cause,
            )
            found.append(_Found(verdict, span))
        if not found and self._statements:
            found += self._of_whole(rule, recorder.decisions, reasons)
        return [each for each in found if not any(_says_more(other, each) for other in found)]

    def _of_whole(self, rule: Rule, decisions: list[Decision], reasons: Reasons) -> Iterator[_Found]:
        """Why a rule that no expression of the row has reached is silent, if the row has a word that wakes the rule."""
        first = self._statements[0]
        rows = range(first_row(first), self._source.row(self._span(first)[1]) + 1)
        code = "\n".join(self._source.line(row) for row in rows).encode()
        if not any(word in code for word in rule.triggers[0]):
            return
        of_file = [each for each in decisions if each.place is None]
        told = reasons.last(of_file)
        reason = BY_FORM if told is None or told[0].cause is Cause.FORM else told[0]
        says = reason.says if reason is BY_FORM else f"in the whole file: {reason.says}"
        span = self._span(first)
        row, column = self._source.position(span[0])
        name, section = (rule.code, rule.name), section_for(rule, reason.says)
        asked, text = tuple(reasons.asked(of_file)), self._text(span)
        yield _Found(Verdict(*name, row, column, text, State.SILENT, says, section, asked, reason.cause), span)

    def _reported(self, rule: Rule, diagnostic: Diagnostic) -> Verdict:
        state, says, comment = State.REPORTED, diagnostic.message, None
        if rule.code not in self._opened.selected:
            state, says = State.OFF, f"it is off (`--extend-select {rule.code}`)"
        elif not may_speak(rule, self._opened.target):
            state, says = State.OFF, "the project's version of torch or torchmetrics is not one that it is about"
        elif not diagnostic.confidence.satisfies(self._opened.least):
            state, says = State.OFF, "it is only likely (`--min-confidence likely`)"
        elif not Severity(diagnostic.severity).satisfies(self._opened.mildest):
            state, says = State.OFF, f"it is only a {diagnostic.severity} (`--min-severity {diagnostic.severity}`)"
        elif self._suppressions.cover_the_file:
            state, says = State.SUPPRESSED, "a comment `ignore-file` silences it"
        else:
            comment = self._suppressions.silencing(diagnostic)
            if comment is not None:
                state, says = State.SUPPRESSED, silenced_by(*comment)
        return Verdict(
            rule.code,
            rule.name,
            diagnostic.row,
            diagnostic.column,
            self._text((diagnostic.start, diagnostic.end)),
            state,
            says,
            "What it does",
            (),
            finding=diagnostic,
            comment=comment,
        )

    def _by_place(self, decisions: list[Decision]) -> dict[tuple[int, int], list[Decision]]:
        """The decisions by the place that they are about; those about a name or the like belong to the call around."""
        spans = [self._span(each.place) for each in decisions if each.place is not None]
        whole = {span for span, each in zip(spans, decisions, strict=True) if not isinstance(each.place, _PARTS)}
        groups: dict[tuple[int, int], list[Decision]] = {}
        for span, decision in zip(spans, decisions, strict=True):
            around = [each for each in whole if _holds(each, span)]
            nearest = min(around, key=lambda each: each[1] - each[0], default=span)
            groups.setdefault(nearest, []).append(decision)
        return groups

    def _span(self, place: Place) -> tuple[int, int]:
        if isinstance(place, Site):
            return place.start, place.end
        last: ast.expr | ast.stmt = place
        start = self._source.offset(place.lineno, place.col_offset)
        if isinstance(place, ast.stmt) and hasattr(place, "body"):
            header = [each for each in self._inside.expressions(place) if not isinstance(place, ast.Try)]
            if not header:
                return start, start + 1
            last = max(header, key=self._end)
        return start, max(start + 1, self._end(last))

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def _text(self, span: tuple[int, int]) -> str:
        text = " ".join(self._source.utf8[span[0] : span[1]].decode().split())
        return text if len(text) <= 60 else f"{text[:57]}..."


_PARTS = (ast.Name, ast.Attribute, ast.Starred, ast.Tuple, ast.List)
"""Expressions that a rule asks about only as parts of others."""


class _Found(NamedTuple):
    verdict: Verdict
    span: tuple[int, int]


def _says_more(other: _Found, each: _Found) -> bool:
    """Whether the same is said of a place around this one."""
    return other is not each and other.verdict.says == each.verdict.says and _holds(other.span, each.span)


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
