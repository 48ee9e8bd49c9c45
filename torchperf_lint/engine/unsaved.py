"""Runs jobs on texts that are not in their files: all of them stand in the project at once, and nothing is written."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.files import unreadable
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import broken, failed, line_lengths, requirements, run_on
from torchperf_lint.engine.names import why_no_python
from torchperf_lint.syntax.identity import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torchperf_lint.engine.jobs import Job, Result
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.model.program import Program


def run_with(
    work: Sequence[Job],
    texts: Mapping[str, bytes],
    cache: str | None,
    *,
    in_project: bool = True,
    wanted: Callable[[str], bool] = lambda _: True,
) -> Iterator[Result]:
    """The results of the jobs in their order; `texts` are the bytes of some of their files, by path.

    Without `in_project`, each is judged alone. Files that are not `wanted` get no result, and are there for the others.
    `cache` is as for `gather`.
    """
    requirements.cache_clear()
    line_lengths.cache_clear()

    @functools.cache
    def program() -> Program:
        from torchperf_lint.engine.project_snapshot import gather, read_file

        snapshot = gather([job.path for job in work], work[0].hints, cache)
        by_key = {key_of(path): data for path, data in texts.items()}
        return with_texts(snapshot, by_key).program(lambda key: by_key[key] if key in by_key else read_file(key))

    for job in work:
        if not wanted(job.path):
            continue
        try:
            data = texts.get(job.path)
            if data is None:
                with open(job.path, "rb") as file:
                    data = file.read()
            elif in_project and (reason := _no_python(job.path)) is not None:
                yield failed(Failure(job.path, None, None, reason))
                continue
            yield run_on(job, data, program if in_project else None)
        except OSError as error:
            yield failed(unreadable(job.path, error))
        except Exception as error:
            yield broken(job, error)


def with_texts(snapshot: Snapshot, by_key: Mapping[str, bytes]) -> Snapshot:
    """The snapshot as it would be if these texts, by the keys of their files, had been in their files."""
    from torchperf_lint.model.project.file_symbols import symbols_of

    facts = {**snapshot.facts, **{key: symbols_of(data) for key, data in by_key.items()}}
    statuses = {**snapshot.statuses, **dict.fromkeys(by_key)}
    return snapshot._replace(facts=facts, statuses=statuses)


def _no_python(path: str) -> str | None:
    """Why a text is no Python, by its path; a file need not exist, and is not looked into."""
    try:
        return why_no_python(path)
    except OSError:
        return None
