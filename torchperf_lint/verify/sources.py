"""The source files of a run of the user's program, and the linter's findings in them."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.config import load
from torchperf_lint.engine.executors import Processes
from torchperf_lint.engine.jobs import Action, Job
from torchperf_lint.engine.project_root import layout_at, layout_of
from torchperf_lint.engine.project_snapshot import look_at
from torchperf_lint.syntax.identity import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.engine.jobs import Result
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.verify.events import Place
    from torchperf_lint.verify.runs import Run


class Sources(NamedTuple):
    """The source files that a run loaded: the script's, and those of packages, files and folders that it includes.

    `modules` has the name of each file's module, empty for files that are not modules; `included` maps given names to
    locations. All paths are absolute.
    """

    script: str
    modules: Mapping[str, str]
    included: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, run: Run, script: str) -> Sources:
        """The source files of a run; the script alone if the run could not report them."""
        return cls(script, run.report["modules"] or {script: ""}, run.report["included"])

    @property
    def places(self) -> list[str]:
        """The locations of what is included."""
        return [place for places in self.included.values() for place in places]

    def shown(self, path: str) -> str:
        """A path relative to the current folder or, if shorter, to the folder that contains an included package."""
        if not os.path.isabs(path):
            return path
        names = [os.path.relpath(path)]
        names += [os.path.relpath(path, os.path.dirname(place)) for place in self.places if _lies_in(path, place)]
        return min(names, key=len)

    def place(self, place: Place) -> str:
        """A line as path:row."""
        return f"{self.shown(place.file)}:{place.row}" if place.row else place.file


class Linter:
    """Checks all source files as one program: the script's project together with what it includes.

    Raise BadConfig where the project's configuration cannot be read.
    """

    def __init__(self, sources: Sources, jobs: int | None = None) -> None:
        """`jobs` is the number of processes; None: as many as there are cores to use."""
        self.sources = sources
        self._jobs = jobs
        self._settings = load(os.path.dirname(sources.script), None)
        self._snapshot = functools.cache(self._looked_at)

    def findings(self) -> tuple[list[Diagnostic], list[str]]:
        """The findings, and a line for each file that cannot be linted."""
        reports = [result.report for result in self.results(Action.CHECK)]
        failures = [str(report.failure) for report in reports if report.failure is not None]
        return [each for report in reports for each in report.diagnostics], failures

    def results(self, action: Action, *, unsafe: bool = False) -> list[Result]:
        """The linter's result for each file; nothing is written."""
        settings = self._settings
        work = []
        for path in sorted(self.sources.modules):
            codes = tuple(rule.code for rule in settings.rules_for(path))
            # Unused suppressions do not concern waits.
            asked = (action, unsafe, False, True, settings.min_confidence)
            work.append(Job(path, codes, settings.target, settings.hints, *asked, held=settings.held))
        with contextlib.closing(Processes(self._jobs)) as workers:
            return list(workers.judged(work, self._snapshot))

    def _looked_at(self) -> Snapshot:
        layout = layout_of(self.sources.modules, self.sources.script)
        for place in filter(os.path.isdir, self.sources.places):
            layout = layout._replace(found=layout.found | layout_at(key_of(place), {}).found)
        return look_at(layout, self._settings.hints, None)


def _lies_in(path: str, place: str) -> bool:
    return path == place or path.startswith(os.path.join(place, ""))
