"""`--add-noqa`: the findings that count are silenced by comments, and the files are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.noqa_comments import with_noqa
from torchperf_lint.engine.replacing import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.engine.jobs import Result


class Silenced(NamedTuple):
    """What was done: numbers of silenced findings and of written files.

    `left` are findings that stay, `notebooks` has the number of those in each notebook, and `failures` the files that
    cannot be written.
    """

    findings: int
    files: int
    left: list[Diagnostic]
    notebooks: dict[str, int]
    failures: list[Failure]


def add_noqa(results: Iterable[Result]) -> Silenced:
    """Write a comment for each finding of the results; each file is replaced in one step. Notebooks stay."""
    findings = files = 0
    left: list[Diagnostic] = []
    notebooks: dict[str, int] = {}
    failures = []
    for result in results:
        found = result.report.diagnostics
        if not found:
            continue
        if is_notebook(result.path):
            notebooks[result.path] = len(found)
            continue
        commented = with_noqa(result.path, result.data, found)
        if commented.data != result.data:
            try:
                with open(result.path, "rb") as file:
                    if file.read() != result.data:
                        raise OSError("it has changed since it was judged")
                write_atomically(result.path, commented.data)
            except OSError as error:
                failures.append(Failure(result.path, None, None, f"cannot be written: {error.strerror or error}"))
                continue
            files += 1
        findings += commented.silenced
        left += commented.left
    return Silenced(findings, files, left, notebooks, failures)
