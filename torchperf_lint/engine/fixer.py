"""Fixes one file in passes of compatible fixes; each result is checked, until nothing changes."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.edit_merge import compatible, moved
from torchperf_lint.engine.findings import LATER, Applied, Confidence, Diagnostic, Safety
from torchperf_lint.engine.layout import STANDARD_LENGTH, laid_out
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.engine.trial import Rejected, edits_of, has_lessened, offered, written
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Edit, Fix
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program

MOST_PASSES = 10


class Withdrawn(NamedTuple):
    """A fix that was tried and not applied; `row` is the 1-based row of its finding in the text where it was tried."""

    code: str
    reason: str
    row: int


class FixReport(NamedTuple):
    """A fixed file: its bytes in its own encoding, applied and withdrawn fixes, and the remaining report.

    `unfixed` is the report before any fix.
    """

    data: bytes
    applied: tuple[Applied, ...]
    withdrawn: tuple[Withdrawn, ...]
    report: FileReport
    unfixed: FileReport


class _State(NamedTuple):
    """The file after some passes.

    `barred` has the code and place of the findings whose fixes were withdrawn, `spared` of those to leave alone.
    `origins` has the starts in the text before any fix, by those in `data`.
    """

    data: bytes
    report: FileReport
    applied: tuple[Applied, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    barred: frozenset[tuple[str, int]] = frozenset()
    spared: frozenset[tuple[str, int]] = frozenset()
    origins: Mapping[int, int] = {}

    def key(self, found: Diagnostic) -> tuple[str, int]:
        """What `chosen` names the finding by."""
        return found.code, self.origins.get(found.start, LATER)


class Ask(NamedTuple):
    """What the passes need to know of a text of the file: its report or, with `told`, what of this one can be offered.

    `told` is a report on the text; the answer is that of `offered`. In the text, the fixes `chosen` of `before` are
    applied, by the edits `made`.
    """

    data: bytes
    told: FileReport | None = None
    before: FileReport = FileReport()
    chosen: tuple[Diagnostic, ...] = ()
    made: tuple[Edit, ...] = ()

    def is_met_by(self, report: FileReport) -> bool:
        """Whether a report on the text is one with which its fixes are accepted."""
        try:
            has_lessened(self.before, report, self.chosen, self.made)
        except Rejected:
            return False
        return True


Fixing = Generator[Ask, FileReport, FixReport]
"""The passes over a file: they ask, are sent reports, and return the fixed file."""


def fix_source(
    path: str,
    data: bytes,
    rules: Sequence[Rule],
    target: Target,
    hints: Hints,
    unsafe: bool,
    *,
    program: Callable[[], Program] | None = None,
    comments: Comments = Comments.ALL,
    report_unused: bool = True,
    least: Confidence = Confidence.LIKELY,
    held: frozenset[str] = frozenset(),
    line_length: int = STANDARD_LENGTH,
    spared: frozenset[tuple[str, int]] = frozenset(),
    chosen: frozenset[tuple[str, int]] | None = None,
) -> FixReport:
    """Fix the bytes of one file; never raises because of the file's content.

    The fixes are those of `fixing`. `comments`, `least` and `held` are as for `check_source`.
    """

    def answer(ask: Ask) -> FileReport:
        subject = (path, ask.data, rules, target, hints)
        if ask.told is None:
            return check_source(
                *subject, program=program, comments=comments, report_unused=report_unused, least=least, held=held
            )
        return offered(
            ask.told,
            *subject,
            in_project=program is not None,
            comments=comments,
            report_unused=report_unused,
            least=least,
            line_length=line_length,
        )

    passes = fixing(path, data, answer(Ask(data)), unsafe, line_length=line_length, spared=spared, chosen=chosen)
    try:
        ask = next(passes)
        while True:
            ask = passes.send(answer(ask))
    except StopIteration as end:
        fixed: FixReport = end.value
        return fixed


def fixing(
    path: str,
    data: bytes,
    report: FileReport,
    unsafe: bool,
    *,
    line_length: int = STANDARD_LENGTH,
    spared: frozenset[tuple[str, int]] = frozenset(),
    chosen: frozenset[tuple[str, int]] | None = None,
) -> Fixing:
    """Fix the bytes of one file, of which this is the report.

    SAFE fixes are applied and, with `unsafe`, UNSAFE ones; SHOWN ones never. A fix is withdrawn, and reported as such,
    if its result does not parse or does not reduce its rule's findings. Where the passes do not converge, the state
    with the fewest findings is returned. The fixes are laid out for lines of `line_length` columns. `spared` has the
    code and start of findings that are neither fixed nor reported, `chosen` the keys of the only fixes to apply (None:
    all), as `Applied` has them.
    """
    origins = {each.start: each.start for each in report.diagnostics}
    best = state = first = _State(data, report, spared=spared, origins=origins)
    for _ in range(MOST_PASSES):
        wanted = _wanted(state, unsafe, chosen)
        if not wanted:
            return (yield from _finished(state, first))
        state = yield from _one_pass(path, state, wanted, line_length)
        if len(state.report.diagnostics) < len(best.report.diagnostics):
            best = state
    unsettled = _wanted(state, unsafe, chosen)
    if unsettled:
        unsettled = _wanted(best, unsafe, chosen)
        reason = f"the fixes of the file do not settle within {MOST_PASSES} passes"
        state = _barring(best, unsettled, _withdraw(unsettled, reason))
    return (yield from _finished(state, first))


def _finished(state: _State, first: _State) -> Fixing:
    remaining = yield from _tried(_remaining(state), state.data)
    unfixed = remaining
    if state.data != first.data:
        unfixed = yield from _tried(_remaining(first), first.data)
    return FixReport(state.data, _placed(state.applied, first), state.withdrawn, remaining, unfixed)


def _tried(report: FileReport, data: bytes) -> Generator[Ask, FileReport, FileReport]:
    """The report with the fixes that can be offered."""
    if not any(each.fix for each in report.diagnostics):
        return report
    return (yield Ask(data, report))


def _placed(applied: tuple[Applied, ...], first: _State) -> tuple[Applied, ...]:
    """The fixes with the rows of the text before any fix."""
    rows = {each.start: each.row for each in first.report.diagnostics}
    return tuple(each._replace(row=rows.get(each.start, each.row)) for each in applied)


def _remaining(state: _State) -> FileReport:
    """The final report, without the fixes that were withdrawn and without what is spared."""
    left = (
        each._replace(fix=None) if (each.code, each.start) in state.barred else each
        for each in state.report.diagnostics
        if (each.code, each.start) not in state.spared
    )
    return state.report._replace(diagnostics=tuple(left))


def _wanted(state: _State, unsafe: bool, chosen: frozenset[tuple[str, int]] | None) -> list[Diagnostic]:
    """The findings whose fixes are permitted and have not failed before."""
    worst = Safety.UNSAFE if unsafe else Safety.SAFE
    return [
        each
        for each in state.report.diagnostics
        if each.fix is not None
        and each.fix.safety.rank <= worst.rank
        and (each.code, each.start) not in state.barred | state.spared
        and (chosen is None or state.key(each) in chosen)
    ]


def _one_pass(
    path: str, state: _State, wanted: Sequence[Diagnostic], line_length: int
) -> Generator[Ask, FileReport, _State]:
    source = Source(path, state.data)
    if not source.editable:
        return _barring(state, wanted, _withdraw(wanted, f"{source.encoding} text cannot be written back unchanged"))
    accepted = [wanted[index] for index in compatible(each.fix for each in wanted if each.fix)]
    refused: list[Diagnostic] = []
    withdrawn: list[Withdrawn] = []
    try:
        data, report = yield from _attempt(source, state.report, accepted, line_length)
    except Rejected:
        chosen, accepted, data, report = accepted, [], state.data, state.report
        for each in chosen:
            try:
                data, report = yield from _attempt(source, state.report, [*accepted, each], line_length)
                accepted.append(each)
            except Rejected as error:
                refused.append(each)
                withdrawn += _withdraw([each], str(error))
    state = _barring(state, refused, withdrawn)
    edits = laid_out(source, edits_of(accepted), line_length)
    return _State(
        data,
        report,
        (*state.applied, *(_applied(each, each.fix, state) for each in accepted if each.fix)),
        state.withdrawn,
        barred=frozenset((code, moved(start, edits)) for code, start in state.barred),
        spared=frozenset((code, moved(start, edits)) for code, start in state.spared),
        origins={moved(now, edits): start for now, start in state.origins.items()},
    )


def _applied(found: Diagnostic, fix: Fix, state: _State) -> Applied:
    _, start = state.key(found)
    return Applied(found.path, found.row, found.code, found.name, fix.message, fix.safety, fix.assumes, start)


def _attempt(
    source: Source, before: FileReport, chosen: Sequence[Diagnostic], line_length: int
) -> Generator[Ask, FileReport, tuple[bytes, FileReport]]:
    """The file after these fixes and its report; raise Rejected if the result is not acceptable."""
    made = laid_out(source, edits_of(chosen), line_length)
    data = written(source, made)
    after = yield Ask(data, before=before, chosen=tuple(chosen), made=made)
    has_lessened(before, after, chosen, made)
    return data, after


def _barring(state: _State, refused: Sequence[Diagnostic], withdrawn: Sequence[Withdrawn]) -> _State:
    """The state with these fixes recorded as withdrawn, so that no later pass tries them again."""
    return state._replace(
        withdrawn=(*state.withdrawn, *withdrawn),
        barred=state.barred | {(each.code, each.start) for each in refused},
    )


def _withdraw(refused: Sequence[Diagnostic], reason: str) -> list[Withdrawn]:
    return [Withdrawn(each.code, reason, each.row) for each in refused]
