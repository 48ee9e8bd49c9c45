"""The findings in the files that a trace has run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_lint.config import load
from torchperf_lint.engine.gather import look_at
from torchperf_lint.engine.jobs import Disk, Job, run_job
from torchperf_lint.engine.layout import layout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.findings import Diagnostic


def lint(files: Sequence[str], root: str) -> tuple[list[Diagnostic], list[str]]:
    """The findings in these files, as parts of the project at a folder, and the files that cannot be linted.

    Raise BadConfig where the configuration is wrong.
    """
    settings = load(root, None)
    around = Disk(lambda: look_at(layout_of(files, os.path.join(root, "__main__.py")), settings.hints, None))
    reports = []
    for file in files:
        codes = tuple(rule.code for rule in settings.rules_for(file))
        # A suppression that is not needed is no matter of waits.
        job = Job(file, codes, settings.target, settings.hints, report_unused=False)
        reports.append(run_job(job, around).report)
    failures = [str(report.failure) for report in reports if report.failure is not None]
    return [each for report in reports for each in report.diagnostics], failures
