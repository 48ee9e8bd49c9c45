"""Checks or fixes many files: each is found once and reported in the order of paths."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING

from torchperf_lint.engine.executors import PROCESSES, Processes, calm_collector, workers_of
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover
from torchperf_lint.engine.findings import Confidence, Failure
from torchperf_lint.engine.jobs import Action, Job, Result, failed, line_lengths, name_of_target, requirements, run_on
from torchperf_lint.engine.project_root import folder_left_out, layout_of, root_of
from torchperf_lint.engine.replacing import remove_leftover, write_atomically
from torchperf_lint.engine.results import Results
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.syntax.identity import digest_of, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from torchperf_lint.config import Settings
    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.executors import Workers
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program


def check_paths(
    paths: Sequence[str],
    rules_for: Callable[[str], Sequence[Rule]],
    target: Target,
    hints: Hints,
    *,
    reports_unused: Callable[[str], bool] = lambda path: True,
    action: Action = Action.CHECK,
    unsafe: bool = False,
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    root: str = ".",
    cache: str | None = None,
    jobs: int | None = None,
    executor: str = PROCESSES,
    progress: Callable[[int, int], None] | None = None,
    reading: Callable[[int, int], None] | None = None,
    own_versions: bool = True,
    least: Confidence = Confidence.LIKELY,
    wanted: Callable[[str], bool] = lambda path: True,
    spared: Mapping[str, frozenset[tuple[str, int]]] | None = None,
    chosen: Mapping[str, frozenset[tuple[str, int]]] | None = None,
    comments: Comments = Comments.ALL,
    held: frozenset[str] = frozenset(),
    forced: bool = False,
    own: Callable[[str], Settings] | None = None,
) -> Iterator[Result]:
    """Yield the result of every file under `paths`, sorted by path, the same for any number of `jobs`.

    Files are checked as parts of their project as the run finds it, and those that fixes change beside the others that
    change: with FIX, files are written only after all are done. `rules_for` and `reports_unused` (whether TPL001 is on)
    are called per file, in this process. `exclude` and `root` are as for `files.discover`, `cache` as for `gather`.
    `jobs` None uses one process per available core, if `executor` (see `checked_executor`) starts processes. `progress`
    is called with the number of checked files and their total, `reading` with those of the project that are read.
    An unreadable file gives a result with a failure.
    `own_versions` and `least` are as in Job. Only files that are `wanted` get a result, judged as parts of the same
    project. `spared` and `chosen` have those of Job by path; `comments` and `held` are as in Job, `forced` as for
    `files.discover`. `own` gives the settings that a file has of its own: its versions, `least` and `held`. Raise
    `Unusable` where the executor fails, before anything is written.
    """
    requirements.cache_clear()
    line_lengths.cache_clear()
    found = discover(paths, exclude, root, forced=forced)
    for folder in found.leftovers:
        remove_leftover(folder)

    def job_of(path: str) -> Job:
        job = Job(
            path,
            tuple(rule.code for rule in rules_for(path)),
            target,
            hints,
            action=action,
            unsafe=unsafe,
            report_unused=reports_unused(path),
            own_versions=own_versions,
            least=least,
            spared=spared.get(path, frozenset()) if spared else frozenset(),
            chosen=chosen.get(path) if chosen else None,
            comments=comments,
            held=held,
        )
        if own is None:
            return job
        settings = own(path)
        return job._replace(target=settings.target, least=settings.min_confidence, held=settings.held)

    work = [job_of(path) for path in found.files if wanted(path)]
    workers = workers_of(executor, jobs)
    snapshot = functools.cache(functools.partial(_gathered, found.files, hints, cache, workers, reading))
    if cache is not None and action is Action.CHECK and work:
        work = [job._replace(keeps=True) for job in work]
        results = _with_kept(work, found.files, target, cache, snapshot, workers)
    elif action in (Action.FIX, Action.TRY):
        from torchperf_lint.engine.fix_rounds import fixed_together

        results = fixed_together(work, snapshot, workers, progress)
    else:
        results = workers.judged(work, snapshot)
    if progress is not None and action is Action.CHECK:
        results = _counted(results, len(work), progress)
    if action is Action.FIX:
        results = _written(results)
    failures = sorted(
        (each for each in found.failures if wanted(each.path)), key=lambda failure: failure.path, reverse=True
    )
    with calm_collector(), contextlib.closing(workers), contextlib.closing(results) as stream:
        for result in stream:
            while failures and failures[-1].path < result.path:
                yield failed(failures.pop())
            yield result
    yield from map(failed, reversed(failures))


def run_in_project(job: Job, data: bytes, cache: str | None) -> Result:
    """Run a job on bytes that replace the file at its path, in its project; `cache` is as for `gather`."""
    return run_on(job, data, functools.cache(lambda: program_around(job.path, job.hints, cache)))


def program_around(path: str, hints: Hints, cache: str | None) -> Program:
    """The project that a file belongs to, as a run on this file finds it; `cache` is as for `gather`."""
    return _gathered([path], hints, cache, Processes(1)).program()


def _gathered(
    paths: Sequence[str],
    hints: Hints,
    cache: str | None,
    workers: Workers,
    reading: Callable[[int, int], None] | None = None,
) -> Snapshot:
    from torchperf_lint.engine.project_snapshot import gather

    return gather(paths, hints, cache, workers.facts_of_all, reading)


# -- results of earlier runs ----------------------------------------------------------------------------------------


def _with_kept(
    work: Sequence[Job],
    linted: Sequence[str],
    target: Target,
    cache: str,
    snapshot: Callable[[], Snapshot],
    workers: Workers,
) -> Generator[Result, None, None]:
    """The results of the work; stored results that are still valid are not computed again.

    `linted` has the paths of the project that the work is a part of, `target` is that of the run.
    """
    keys = keys_of(linted)
    first = work[0]
    settings = repr((folder_left_out(keys), target, first.hints, first.own_versions))
    kept = Results(root_of(keys.values()), cache, settings)
    looked_at: list[Snapshot] = []

    def noted() -> Snapshot:
        if not looked_at:
            looked_at.append(snapshot())
        return looked_at[0]

    told = _told(work, keys, kept)
    asking = [path for path in told if not kept.is_alone(keys[path])]
    if asking and not kept.unchanged(layout_of(keys)):
        kept.outlive(noted())
        told = {path: result for path, result in told.items() if kept.holds(keys[path])}
    with contextlib.closing(workers.judged([job for job in work if job.path not in told], noted)) as judged:
        for job in work:
            result = told.pop(job.path, None)
            if result is None:
                result = next(judged)
                kept.add(keys[job.path], job.path, _asked(job), result.report, result.fingerprint)
            yield result
    kept.save(looked_at[0] if looked_at else None)


def _told(work: Sequence[Job], keys: dict[str, str], kept: Results) -> dict[str, Result]:
    """The stored results of files that did not change themselves, by path; the project is not compared yet."""
    found: dict[str, Result] = {}
    stated: dict[tuple[str, bool], str] = {}  # current versions, the same for all files of a folder
    for job in work if kept.load() else ():
        key = keys[job.path]
        told = kept.told(key, job.path, _asked(job))
        if told is None:
            continue
        if told.stated is not None:
            place = os.path.dirname(key), os.path.isabs(job.path)
            if place not in stated:
                stated[place] = name_of_target(requirements().complete(job.target, job.path))
            if told.stated != stated[place]:
                continue
        if told.line_length is not None and told.line_length != line_lengths().of(job.path):
            continue
        found[job.path] = Result(job.path, told.report, told.data, told.data)
    return found


def _asked(job: Job) -> str:
    """A job's name, without the settings that a run shares."""
    return _name_of_job(job.codes, job.target, job.report_unused, job.least, job.comments, tuple(sorted(job.held)))


@functools.cache
def _name_of_job(
    codes: tuple[str, ...],
    target: Target,
    report_unused: bool,
    least: Confidence,
    comments: Comments,
    held: tuple[str, ...],
) -> str:
    return digest_of(repr((codes, target, report_unused, least.value, comments.value, held)).encode())[:16]


def _counted(
    results: Generator[Result, None, None], total: int, progress: Callable[[int, int], None]
) -> Generator[Result, None, None]:
    with contextlib.closing(results) as stream:
        for done, result in enumerate(stream, 1):
            yield result
            progress(done, total)


def _written(results: Generator[Result, None, None]) -> Generator[Result, None, None]:
    """The results, with the files written after the last one: until then every file is as the run found it.

    Only files that change or have findings are held in memory until then; results of the others hold no bytes.
    """
    with contextlib.closing(results) as stream:
        done = list(stream)
    for result in done:
        if result.data == result.before:
            yield result
            continue
        try:
            if _content(result.path) != result.before:
                raise OSError("it has changed meanwhile")
            write_atomically(result.path, result.data)
        except OSError as error:
            failure = Failure(result.path, None, None, f"cannot be written: {error.strerror or error}")
            yield Result(result.path, result.unfixed._replace(failure=failure), result.before, result.before)
        else:
            yield result._replace(unfixed=FileReport())


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
