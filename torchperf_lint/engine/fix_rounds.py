"""Fixes many files together: in each round, all files that fixes change are judged once, as one project.

A file that changes costs what is known of the project, so it would take long to fix one file after the other. What the
fixes of each file have to be judged for is collected, judged in one go, and handed back, until nothing is left to try.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.fixer import FixReport, fixing
from torchperf_lint.engine.jobs import Action, Result, broken, result_of, standard_or_own_length
from torchperf_lint.engine.names import is_notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from torchperf_lint.engine.executors import Workers
    from torchperf_lint.engine.fixer import Ask, Fixing
    from torchperf_lint.engine.jobs import Job
    from torchperf_lint.engine.project_snapshot import Snapshot


class _Waiting(NamedTuple):
    """A file on its way: its job, its bytes before any fix, its passes, and what they ask."""

    job: Job
    before: bytes
    passes: Fixing
    ask: Ask


def fixed_together(
    work: Sequence[Job],
    snapshot: Callable[[], Snapshot],
    workers: Workers,
    progress: Callable[[int, int], None] | None = None,
) -> Generator[Result, None, None]:
    """The results of jobs that fix, or try to, in their order; nothing is written.

    Files are judged beside the others as the run found them, and changed ones beside the other changed ones. Notebooks
    are fixed one by one. `progress` is called with the number of files that have been judged once, and of all.
    """
    done: dict[str, Result] = {}
    changed: dict[str, bytes] = {}
    waiting: list[_Waiting] = []
    count = itertools.count(1)

    def results(jobs: Sequence[Job], contents: Mapping[str, bytes]) -> Generator[Result, None, None]:
        with contextlib.closing(workers.judged(jobs, snapshot, contents)) as stream:
            yield from stream

    def counted(stream: Generator[Result, None, None]) -> Generator[Result, None, None]:
        for result in stream:
            yield result
            if progress is not None:
                progress(next(count), len(work))

    def go_on(job: Job, before: bytes, passes: Fixing, answer: Result | None) -> None:
        """Take a file to its next question or to its end."""
        try:
            ask = next(passes) if answer is None else passes.send(answer.report)
        except StopIteration as end:
            fixed: FixReport = end.value
            done[job.path] = result_of(job.path, before, fixed)
            data = fixed.data
        except Exception as error:
            done[job.path] = broken(job, error)
            data = before
        else:
            waiting.append(_Waiting(job, before, passes, ask))
            data = changed.get(job.path, before) if ask.told is not None else ask.data
        changed.pop(job.path, None)
        if data != before:
            changed[job.path] = data

    python = [job for job in work if not is_notebook(job.path)]
    first = results([job._replace(action=Action.JUDGE) for job in python], {})
    for job, result in zip(python, list(counted(first)), strict=True):
        if not result.before:
            done[job.path] = result
            continue
        go_on(job, result.before, _passes(job, result), None)
    while waiting:
        asked, waiting[:] = list(waiting), []
        answers = list(results([_job_of(each) for each in asked], dict(changed)))
        for each, answer in zip(asked, answers, strict=True):
            go_on(each.job, each.before, each.passes, answer)
    notebooks = [job for job in work if is_notebook(job.path)]
    done |= {result.path: result for result in counted(results(notebooks, {}))}
    yield from (done[job.path] for job in work)


def _passes(job: Job, judged: Result) -> Fixing:
    """The passes over a file that has been judged as it is."""
    length = standard_or_own_length(job) if any(each.fix for each in judged.report.diagnostics) else 0
    return (
        yield from fixing(
            job.path,
            judged.before,
            judged.report,
            job.unsafe,
            line_length=length,
            spared=job.spared,
            chosen=job.chosen,
        )
    )


def _job_of(waiting: _Waiting) -> Job:
    """The job that answers what a file's passes ask."""
    data, told = waiting.ask
    if told is None:
        return waiting.job._replace(action=Action.JUDGE, given=data)
    return waiting.job._replace(action=Action.OFFER, given=data, told=told)
