"""The library: `lint` and `fix`, for files and for strings, and the plain data that they return."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.adopt.baseline import BadBaseline
from torchperf_lint.adopt.sieve import sieve_for
from torchperf_lint.api_options import options_of, path_of, paths_of, processes, sources_of
from torchperf_lint.check import repaired, spared_in
from torchperf_lint.config import BadConfig
from torchperf_lint.engine.files import CACHE_FOLDER, DEFAULT_EXCLUDE, discover
from torchperf_lint.engine.findings import CellPath, Severity, file_of
from torchperf_lint.engine.jobs import Action, Job, failed
from torchperf_lint.engine.notebooks import in_cells
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.unsaved import run_with
from torchperf_lint.options import parsed, settings_for
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torchperf_lint.config import Settings
    from torchperf_lint.engine.findings import Because, Diagnostic
    from torchperf_lint.engine.findings import Fix as EngineFix
    from torchperf_lint.engine.jobs import Result

    Path = str | os.PathLike[str]
    Sources = str | bytes | Mapping[Path, str | bytes]

ALONE = "-"
"""The path of a source that is given without one."""

_NOTHING: Mapping[str, frozenset[tuple[str, int]]] = {}


class Position(NamedTuple):
    """A place in a source: 1-based row, and 1-based column in characters."""

    row: int
    column: int


class Evidence(NamedTuple):
    """One step of what shows a finding: a row of a file, and what that shows."""

    path: str
    row: int
    message: str
    cell: int | None = None  # as for a finding


class Edit(NamedTuple):
    """Replace the text from `start` to `end`, which is not included, by `content`."""

    start: Position
    end: Position
    content: str


class Fix(NamedTuple):
    """Edits that belong together; `safety` is `safe`, `unsafe` or `shown`, which is never applied.

    `assumes` is what an unsafe fix takes for granted.
    """

    message: str
    safety: str
    edits: tuple[Edit, ...]
    assumes: str | None = None


class Finding(NamedTuple):
    """A finding. The names of severities, cost classes and reasons are those of `--output-format json`."""

    path: str
    start: Position
    end: Position
    code: str
    name: str
    message: str
    severity: str  # error, warning or note
    confidence: str  # proven or likely
    cost: str | None  # such as `wait per step`; None: it costs no time or memory
    evidence: tuple[Evidence, ...]
    fix: Fix | None
    no_fix: str | None  # why there is no fix: docs/no-fix.md
    cell: int | None = None  # the cell of a notebook that rows count in, from 1


class Problem(NamedTuple):
    """A file that could not be checked, or not completely."""

    path: str
    row: int | None
    column: int | None
    reason: str
    cell: int | None = None  # as for a finding


class Findings(tuple[Finding, ...]):  # noqa: SLOT001 - a tuple with a field of its own cannot have slots
    """The findings, ordered by path and place; `problems` are the files that could not be checked."""

    problems: tuple[Problem, ...] = ()


class Fixed(NamedTuple):
    """A file that fixes change, or that has a problem.

    `applied` and `withdrawn` have a code and words for each fix; what is withdrawn is not in `after`.
    `remaining` are the findings that are left, placed in `after`. Where there is a problem and nothing was fixed,
    `before` and `after` are the same text, or None for a file that cannot be read. Bytes that cannot be decoded are
    in them as `errors="surrogateescape"` has them.
    """

    path: str
    before: str | None
    after: str | None
    applied: tuple[tuple[str, str], ...]
    withdrawn: tuple[tuple[str, str], ...]
    remaining: tuple[Finding, ...]
    problem: Problem | None  # such as that the file could not be written


def lint(
    paths: Path | Iterable[Path] = (),
    *,
    sources: Sources | None = None,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    extend_select: Iterable[str] = (),
    exclude: Iterable[str] | None = None,
    extend_exclude: Iterable[str] = (),
    min_confidence: str | None = None,
    min_severity: str | None = None,
    target_torch: str | None = None,
    target_torchmetrics: str | None = None,
    baseline: Path | None = None,
    no_baseline: bool = False,
    config: Path | None = None,
    isolated: bool = False,
    cache: bool = True,
    jobs: int | None = 1,
) -> Findings:
    """The findings of files and folders, and of sources that are no files yet.

    `sources` is the text of one source, which is judged alone under the path `-`, or maps paths to texts. Such a text
    is judged in the project around its path, and stands for the file there, also where the other files are judged.
    The other parameters are the options of the command line. As there, the configuration is that of the project unless
    `config` names a file or `isolated` is true, and findings of its baseline are left out. `jobs` other than 1 starts
    processes, which works only in a program with `if __name__ == "__main__"`; None starts as many as are worth it.
    With `cache`, what is learnt of the project is kept in `.torchperf_lint_cache` in its root. Files that cannot be
    checked are in the result's `problems`.
    Raise ValueError for an unknown rule, a wrong version, glob, level or number, or a configuration or baseline that
    cannot be read, and TypeError for a value of another type; both name the option.
    """
    run = _run_of(locals())
    results = run.results(Action.CHECK)
    findings = Findings(each for result in results for each in _findings(result))
    findings.problems = tuple(each for each in map(_problem, results) if each is not None)
    return findings


def fix(
    paths: Path | Iterable[Path] = (),
    *,
    sources: Sources | None = None,
    unsafe: bool = False,
    write: bool = False,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] = (),
    extend_select: Iterable[str] = (),
    exclude: Iterable[str] | None = None,
    extend_exclude: Iterable[str] = (),
    min_confidence: str | None = None,
    min_severity: str | None = None,
    target_torch: str | None = None,
    target_torchmetrics: str | None = None,
    baseline: Path | None = None,
    no_baseline: bool = False,
    config: Path | None = None,
    isolated: bool = False,
    cache: bool = True,
    jobs: int | None = 1,
) -> tuple[Fixed, ...]:
    """What the safe fixes, and with `unsafe` the unsafe ones, make of files and sources.

    The result has the files that change, and those that have a problem.
    Nothing is written unless `write` is true, and then the files only: sources are strings, and stay with the caller.
    The other parameters, and the errors, are those of `lint`.
    """
    run = _run_of(locals())
    if write and sources is not None:
        raise ValueError("sources are strings, which cannot be written: call `fix` for the paths alone")
    results = run.results(Action.FIX if write else Action.TRY, unsafe)
    return tuple(
        Fixed(
            result.path,
            *run.texts(result),
            tuple((each.code, each.message) for each in result.applied),
            tuple((each.code, each.reason) for each in result.withdrawn),
            tuple(_findings(result)),
            _problem(result),
        )
        for result in results
        if result.data != result.before or result.report.failure is not None
    )


def _run_of(given: Mapping[str, Any]) -> _Run:
    """A call of `lint` or `fix`, by all its parameters."""
    options = options_of(
        lists={name: given[name] for name in ("select", "ignore", "extend_select")},
        globs={name: given[name] for name in ("exclude", "extend_exclude")},
        levels=(given["min_confidence"], given["min_severity"]),
        targets=(given["target_torch"], given["target_torchmetrics"]),
        baseline=path_of("baseline", given["baseline"]),
        no_baseline=given["no_baseline"],
        config=path_of("config", given["config"]),
        isolated=given["isolated"],
    )
    paths, sources = paths_of(given["paths"]), sources_of(given["sources"])
    return _Run(paths, sources, options, given["cache"], processes(given["jobs"]))


class _Run:
    """One call: its files, its sources and its settings."""

    def __init__(
        self,
        paths: list[str],
        sources: str | bytes | dict[str, str | bytes],
        options: dict[str, Any],
        cache: bool,
        jobs: int | None,
    ) -> None:
        self._paths = paths
        self._alone: bytes | None = None
        self._texts: dict[str, bytes] = {}
        if isinstance(sources, dict):
            self._given = sources
            self._texts = {path: _bytes(text) for path, text in sources.items()}
        else:
            self._given = {ALONE: sources}
            self._alone = _bytes(sources)
        self._cache = CACHE_FOLDER if cache else None
        self._jobs = jobs
        self._isolated: bool = options["isolated"]
        given = parsed([])
        for name, value in options.items():
            setattr(given, name, value)
        given.paths = [*paths, *self._texts] or [os.curdir]
        try:
            self._settings: Settings = settings_for(given)
        except BadConfig as error:
            raise ValueError(str(error.failure)) from None

    def texts(self, result: Result) -> tuple[str | None, str | None]:
        """A file's text before and after the fixes; None where the file cannot be read."""
        if result.data != result.before:
            return _decoded(result.path, result.before), _decoded(result.path, result.data)
        text = self._unchanged(result)
        return text, text

    def _unchanged(self, result: Result) -> str | None:
        given = self._given.get(result.path)
        if isinstance(given, str):
            return given
        if given is not None:
            return _decoded(result.path, given)
        # A result keeps no bytes of a file that could not be checked.
        data = result.before or _content(result.path)
        return None if data is None else _decoded(result.path, data)

    def results(self, action: Action, unsafe: bool = False) -> list[Result]:
        """The results of all files and sources, with the findings that count."""
        try:
            return self._results(action, unsafe)
        except BadConfig as error:  # of a folder
            raise ValueError(str(error.failure)) from None

    def _results(self, action: Action, unsafe: bool) -> list[Result]:
        if self._settings.baseline is None and self._settings.min_severity is Severity.NOTE:
            return self._judged(action, unsafe)
        try:
            sieve = sieve_for(self._settings)
        except BadBaseline as error:
            raise ValueError(str(error.failure)) from None
        found = self._judged(Action.CHECK, unsafe)
        sifted = sieve.sift(found).results
        if action is Action.CHECK:
            return sifted
        spared = spared_in(found, sifted)
        return repaired(sifted, lambda wanted, spared: self._judged(action, unsafe, wanted, spared), spared)

    def _judged(
        self,
        action: Action,
        unsafe: bool,
        wanted: Callable[[str], bool] = lambda _: True,
        spared: Mapping[str, frozenset[tuple[str, int]]] = _NOTHING,
    ) -> list[Result]:
        """The results of the files and sources that are wanted; `spared` is as for `check_paths`."""
        found: list[Result] = []
        if self._texts:
            found += self._with_texts(Action.TRY if action is Action.FIX else action, unsafe, wanted, spared)
        elif self._paths:
            settings = self._settings
            found += check_paths(
                self._paths,
                settings.rules_for,
                settings.target,
                settings.hints,
                reports_unused=settings.reports_unused_in,
                action=action,
                unsafe=unsafe,
                exclude=self._excluded(),
                root=settings.root,
                cache=self._cache,
                jobs=self._jobs,
                own_versions=not self._isolated,
                least=settings.min_confidence,
                wanted=wanted,
                spared=spared,
                held=settings.held,
                forced=settings.force_exclude,
                own=settings.own,
            )
        if self._alone is not None and wanted(ALONE):
            job = self._job(ALONE, action, unsafe, spared)._replace(own_versions=False)
            found += run_with([job], {ALONE: self._alone}, None, in_project=False)
        return found

    def _with_texts(
        self,
        action: Action,
        unsafe: bool,
        wanted: Callable[[str], bool],
        spared: Mapping[str, frozenset[tuple[str, int]]],
    ) -> list[Result]:
        discovered = discover(self._paths, self._excluded(), self._settings.root, forced=self._settings.force_exclude)
        paths = sorted({*discovered.files, *self._texts})
        work = [self._job(path, action, unsafe, spared) for path in paths]
        judged = run_with(work, self._texts, self._cache, wanted=wanted)
        return sorted([*map(failed, discovered.failures), *judged], key=lambda result: result.path)

    def _job(self, path: str, action: Action, unsafe: bool, spared: Mapping[str, frozenset[tuple[str, int]]]) -> Job:
        settings = self._settings
        codes = tuple(rule.code for rule in settings.rules_for(path))
        unused = settings.reports_unused_in(path)
        own = settings.own(path)
        asked = (action, unsafe, unused, not self._isolated, own.min_confidence)
        return Job(path, codes, own.target, settings.hints, *asked, spared.get(path, frozenset()), held=own.held)

    def _excluded(self) -> tuple[str, ...]:
        own = DEFAULT_EXCLUDE if self._settings.exclude is None else self._settings.exclude
        return (*own, *self._settings.extend_exclude)


def _bytes(text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # no file has such a text: it is one that cannot be decoded
        return text.encode(errors="surrogatepass")


def _decoded(path: str, data: bytes) -> str:
    try:
        return Source(path, data).text
    except Unreadable:  # a file with a problem
        return data.decode(errors="surrogateescape")


def _content(path: str) -> bytes | None:
    """The bytes of a file; None where they cannot be read, as where it is no file."""
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _findings(result: Result) -> Sequence[Finding]:
    found = []
    for part in in_cells([result]) if result.report.diagnostics else ():
        source = Source(part.path, part.data)
        found += [_finding(each, source) for each in part.report.diagnostics]
    return found


def _finding(found: Diagnostic, source: Source) -> Finding:
    return Finding(
        path=file_of(found.path),
        start=Position(found.row, found.column),
        end=Position(found.end_row, found.end_column),
        code=found.code,
        name=found.name,
        message=found.message,
        severity=found.severity,
        confidence=found.confidence.value,
        cost=None if found.cost is None else str(found.cost),
        evidence=tuple(_evidence(step, found.path) for step in found.because),
        fix=None if found.fix is None else _fix(found.fix, source),
        no_fix=found.no_fix,
        cell=_cell(found.path),
    )


def _evidence(step: Because, path: str) -> Evidence:
    place = step.path or path
    return Evidence(file_of(place), step.row, step.text, _cell(place))


def _cell(path: str) -> int | None:
    return path.cell if isinstance(path, CellPath) else None


def _fix(fix: EngineFix, source: Source) -> Fix:
    edits = (
        Edit(Position(*source.position(each.start)), Position(*source.position(each.end)), each.content.decode())
        for each in fix.edits
    )
    return Fix(fix.message, fix.safety.value, tuple(edits), fix.assumes or None)


def _problem(result: Result) -> Problem | None:
    failure = result.report.failure
    if failure is None:
        return None
    if failure.in_cell is None:
        return Problem(failure.path, failure.row, failure.column, failure.reason)
    cell, row, column = failure.in_cell
    return Problem(failure.path, row, column, failure.reason, cell)
