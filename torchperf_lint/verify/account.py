"""The account of a run of the user's program: per loop its waiting lines, each with the linter's findings."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety
from torchperf_lint.verify.child import OK

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.events import Place
    from torchperf_lint.verify.preview import Preview
    from torchperf_lint.verify.runs import Counts, Line, Loop, Run
    from torchperf_lint.verify.script import Joined
    from torchperf_lint.verify.sources import Sources

GRADES = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SHOWN: "shown"}


class WaitingLine(NamedTuple):
    """A line that makes the host wait, or may.

    Counts are per step of its loop; `share` is its part of all counted waits, over all loops. `ways` are the kinds of
    wait; `found` are the findings about the line.
    """

    where: Place
    waits: Fraction
    staged: Fraction
    share: Fraction
    ways: tuple[Line, ...]
    found: tuple[Diagnostic, ...]


class CountedLoop(NamedTuple):
    """A loop with its waiting lines, worst first; `where` and `steps` are as in `runs.Loop`."""

    where: Place | None
    steps: int
    waits: Fraction
    staged: Fraction
    lines: list[WaitingLine]


class Account(NamedTuple):
    """Everything that is reported of a run, in any format."""

    run: Run
    counts: Counts
    loops: list[CountedLoop]
    confirmed: list[Diagnostic]
    not_seen: list[Diagnostic]
    failures: list[str]  # a line for each file that cannot be linted
    sources: Sources
    preview: Preview | None = None

    @property
    def ended_well(self) -> bool:
        """Whether the program ended normally, so that waits that were not seen did not happen."""
        return self.run.status == OK

    @property
    def idle(self) -> list[Diagnostic]:
        """The findings whose line ran without a wait."""
        return [each for each in self.not_seen if self.ran(each)]

    @property
    def not_run(self) -> list[Diagnostic]:
        """The findings on lines that did not run."""
        return [each for each in self.not_seen if not self.ran(each)]

    def ran(self, found: Diagnostic) -> bool:
        """Whether a row of the reported code ran."""
        rows = self.run.report["rows"].get(found.path, ())
        return any(found.row <= row <= found.end_row for row in rows)

    @property
    def lines(self) -> list[WaitingLine]:
        """The waiting lines of all loops."""
        return [line for loop in self.loops for line in loop.lines]


def account_of(run: Run, joined: Joined, failures: list[str], sources: Sources) -> Account:
    """Combine the run's counts and the findings."""
    about: dict[Line, list[Diagnostic]] = {}
    for found, lines in joined.confirmed:
        for line in lines:
            about.setdefault(line, []).append(found)
    loops = run.loops()
    total = sum((loop.waits * max(loop.steps, 1) for loop in loops), Fraction(0))
    told = [_counted(loop, total, about) for loop in loops]
    confirmed = [found for found, _ in joined.confirmed]
    return Account(run, run.counts(), told, confirmed, joined.not_seen, failures, sources)


def grade(found: Diagnostic) -> str | None:
    """The grade of the finding's fix: safe, unsafe, or only shown; None where there is none."""
    return None if found.fix is None else GRADES[found.fix.safety]


def percent(share: Fraction) -> str:
    """A share as a whole percentage, with a special text for small shares that would round to zero."""
    return f"{float(share):.0%}".replace("%", " %") if share >= Fraction(1, 200) or not share else "< 1 %"


def _counted(loop: Loop, total: Fraction, about: dict[Line, list[Diagnostic]]) -> CountedLoop:
    places: dict[Place, list[Line]] = {}
    for line in loop.lines:
        places.setdefault(line.where, []).append(line)
    steps = max(loop.steps, 1)
    lines = []
    for where, ways in places.items():
        waits = sum((way.waits for way in ways), Fraction(0))
        staged = sum((way.staged for way in ways), Fraction(0))
        found = dict.fromkeys(each for way in ways for each in about.get(way, ()))
        share = waits * steps / total if total else Fraction(0)
        lines.append(WaitingLine(where, waits, staged, share, tuple(ways), tuple(found)))
    lines.sort(key=lambda line: (-line.waits, -line.staged, line.where))
    return CountedLoop(loop.where, loop.steps, loop.waits, loop.staged, lines)
