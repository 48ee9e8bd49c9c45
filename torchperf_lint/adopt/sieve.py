"""What of a run's findings counts: none that is known, on a line that did not change, or milder than is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.adopt.baseline import BadBaseline, Baseline, Judged, Stale, read, told_of
from torchperf_lint.adopt.changed import Changes, changes_since
from torchperf_lint.engine.findings import Severity
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.registry import UNUSED_SUPPRESSION
from torchperf_lint.report import printable
from torchperf_lint.report.identity import below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.config import Settings
    from torchperf_lint.engine.findings import Diagnostic, Failure
    from torchperf_lint.engine.jobs import Result


class Sifted(NamedTuple):
    """What is left of a run: results with the findings that count, the number of known ones, and stale entries."""

    results: list[Result]
    known: int = 0
    stale: tuple[Stale, ...] = ()


class Sieve:
    """Takes findings out of results."""

    def __init__(self, settings: Settings, baseline: Baseline | None = None, changes: Changes | None = None) -> None:
        self.baseline = baseline
        self.changes = changes
        self._settings = settings

    @property
    def is_open(self) -> bool:
        """Whether all findings pass."""
        return self.baseline is None and self.changes is None and self._settings.min_severity is Severity.NOTE

    def wants(self, path: str) -> bool:
        """Whether a finding in this file can count."""
        return self.changes is None or self.changes.touch(path)

    def sift(self, results: Sequence[Result]) -> Sifted:
        """The results with the findings that count."""
        if self.is_open:
            return Sifted(list(results))
        kept, known = [], 0
        stale: list[Stale] = []
        for result in results:
            found, unmatched = list(result.report.diagnostics), None
            if self.baseline is not None:
                found, unmatched = self.baseline.split(self.judged(result))
            known += len(result.report.diagnostics) - len(found)
            stale += [] if unmatched is None else [unmatched]
            counting = tuple(each for each in found if self._counts(each, result.data))
            kept.append(result._replace(report=result.report._replace(diagnostics=counting)))
        gone = [] if self.baseline is None else self.baseline.of_gone_files()
        return Sifted(kept, known, (*stale, *gone))

    @property
    def lost(self) -> Failure | None:
        """Why the baseline could not be read, if it is to be written anew."""
        return None if self.baseline is None else self.baseline.lost

    def told_of(self, stale: Sequence[Stale]) -> str:
        """One line about entries of the baseline that match nothing any more; empty where there are none."""
        return told_of(stale, self.baseline.path, printable) if self.baseline is not None and stale else ""

    def written(self, results: Sequence[Result]) -> Baseline:
        """The baseline with all findings of these results, however mild; it is not written yet."""
        assert self.baseline is not None
        return self.baseline.with_findings_of(map(self.judged, results))

    def judged(self, result: Result) -> Judged:
        """A result as the baseline sees it."""
        codes = {rule.code for rule in self._settings.rules_for(result.path)}
        if self._settings.reports_unused_in(result.path):
            codes.add(UNUSED_SUPPRESSION)
        report, data = result.report, result.data
        if report.diagnostics and is_notebook(result.path):
            from torchperf_lint.engine.notebooks import rows_of

            data = rows_of(result.path, data)
        least = self._settings.own(result.path).min_confidence
        return Judged(result.path, data, report.diagnostics, frozenset(codes), least, report.failure is None)

    def _counts(self, diagnostic: Diagnostic, data: bytes) -> bool:
        if not Severity(diagnostic.severity).satisfies(self._settings.min_severity):
            return False
        return self.changes is None or self.changes.concern(diagnostic, data)


def sieve_for(
    settings: Settings,
    changed_since: str | None = None,
    folder: str = os.curdir,
    paths: Sequence[str] = (),
    *,
    writes: bool = False,
) -> Sieve:
    """The sieve of a run on the paths in a folder; raise BadBaseline or NoChanges. `writes` is as for `read`."""
    if writes and settings.baseline is None:
        raise BadBaseline("torchperf-lint", "--write-baseline needs --baseline FILE, or the setting `baseline`")
    changes = None if changed_since is None else changes_since(changed_since, folder, paths)
    path = settings.baseline and (below(settings.baseline, os.curdir) or settings.baseline)
    try:
        baseline = None if path is None else read(path, writes=writes)
    except BadBaseline as error:
        source = settings.baseline_source
        raise error if source is None else error.named_in(below(source, os.curdir) or source) from None
    return Sieve(settings, baseline, changes)
