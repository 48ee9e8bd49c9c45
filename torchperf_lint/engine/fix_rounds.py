"""Fixes many files together: in each round, all files that fixes change are judged once, as one project.

A file that changes costs what is known of the project, so it would take long to fix one file after the other. Each
round collects the changed texts and judges them together, until nothing is left to try.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.fixer import FixReport, fixing
from torchperf_lint.engine.jobs import Action, Result, broken, result_of, standard_or_own_length
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.replacing import writable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from torchperf_lint.engine.executors import Workers
    from torchperf_lint.engine.fixer import Ask, Fixing
    from torchperf_lint.engine.jobs import Job
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.engine.runner import FileReport


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
    count = itertools.count(1)

    def counted(jobs: Sequence[Job]) -> Generator[Result, None, None]:
        with contextlib.closing(workers.judged(jobs, snapshot)) as stream:
            for result in stream:
                yield result
                if progress is not None:
                    progress(next(count), len(work))

    rounds = _Rounds(snapshot, workers)
    python = [job for job in work if not is_notebook(job.path)]
    judged = list(counted([job._replace(action=Action.JUDGE) for job in python]))
    for job, result in zip(python, judged, strict=True):
        rounds.begin(job, result)
    while rounds.waiting:
        rounds.go_on()
    notebooks = [job for job in work if is_notebook(job.path)]
    done = rounds.done | {result.path: result for result in counted(notebooks)}
    yield from (done[job.path] for job in work)


class _Rounds:
    """The files that are being fixed, in rounds.

    In a round, the fixes of all files are tried together. Files whose fixes are refused are taken out, and the others
    judged again, so that what is accepted rests on nothing that is not kept. A text that is asked about again after it
    was refused is tried alone.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], workers: Workers) -> None:
        self.waiting: list[_Waiting] = []
        self.done: dict[str, Result] = {}
        self._snapshot = snapshot
        self._workers = workers
        self._accepted: dict[str, bytes] = {}  # the texts of the files that fixes have changed
        self._refused: set[tuple[str, bytes]] = set()
        self._unwritable: dict[str, Failure] = {}

    def begin(self, job: Job, judged: Result) -> None:
        """Begin with a file that has been judged as it is."""
        if not judged.before:
            self.done[job.path] = judged
            return
        self._tell(job, judged.before, _passes(job, judged), None)
        last = self.waiting[-1] if self.waiting else None
        if job.action is Action.FIX and last is not None and last.job is job and last.ask.told is None:
            try:
                writable(job.path)
            except OSError as error:  # what other files are fixed beside must be kept
                self.waiting.pop()
                reason = f"cannot be written: {error.strerror or error}"
                self._unwritable[job.path] = Failure(job.path, None, None, reason)
                unfixed = job._replace(chosen=frozenset())
                self._tell(unfixed, judged.before, _passes(unfixed, judged), None)

    def go_on(self) -> None:
        """Answer what the files ask that can be answered together."""
        together = [each for each in self.waiting if (each.job.path, each.ask.data) not in self._refused]
        asked = together or self.waiting[:1]
        left = {each.job.path for each in asked}
        self.waiting = [each for each in self.waiting if each.job.path not in left]
        answers = self._tried([each for each in asked if each.ask.told is None])
        answers |= self._answered([each for each in asked if each.ask.told is not None], {})
        for each in asked:
            self._tell(each.job, each.before, each.passes, answers[each.job.path], each.ask)

    def _tried(self, asked: Sequence[_Waiting]) -> dict[str, Result]:
        """The reports on the texts, each beside the others that are accepted."""
        answers: dict[str, Result] = {}
        trying = list(asked)
        while trying:
            texts = {each.job.path: each.ask.data for each in trying}
            answers |= self._answered(trying, {**self._accepted, **texts})
            met = [each for each in trying if each.ask.is_met_by(answers[each.job.path].report)]
            self._refused |= {(each.job.path, each.ask.data) for each in trying if each not in met}
            if len(met) == len(trying):
                break
            trying = met
        self._accepted |= {each.job.path: each.ask.data for each in trying}
        return answers

    def _answered(self, asked: Sequence[_Waiting], contents: Mapping[str, bytes]) -> dict[str, Result]:
        """What workers say, by path, with these contents in the project."""
        jobs = [_job_of(each) for each in asked]
        if not jobs:
            return {}
        with contextlib.closing(self._workers.judged(jobs, self._snapshot, contents)) as stream:
            return {result.path: result for result in stream}

    def _tell(self, job: Job, before: bytes, passes: Fixing, answer: Result | None, ask: Ask | None = None) -> None:
        """Take a file to its next question or to its end."""
        data = before
        try:
            if answer is not None and ask is not None and ask.told is not None and _fails(answer.report, ask.told):
                self.done[job.path] = answer._replace(before=before, data=before)
            else:
                following = next(passes) if answer is None else passes.send(answer.report)
                self.waiting.append(_Waiting(job, before, passes, following))
                return
        except StopIteration as end:
            fixed: FixReport = end.value
            self.done[job.path] = result_of(job.path, before, fixed)
            if job.path in self._unwritable:
                report = fixed.report._replace(failure=self._unwritable[job.path])
                self.done[job.path] = Result(job.path, report, before, before)
            data = fixed.data
        except Exception as error:
            self.done[job.path] = broken(job, error)
        self._accepted.pop(job.path, None)
        if data != before:
            self._accepted[job.path] = data


def _fails(report: FileReport, before: FileReport) -> bool:
    """Whether offering the fixes of a report has failed."""
    return report.failure is not None and report.failure != before.failure


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
    data, told = waiting.ask.data, waiting.ask.told
    if told is None:
        return waiting.job._replace(action=Action.JUDGE, given=data)
    return waiting.job._replace(action=Action.OFFER, given=data, told=told)
