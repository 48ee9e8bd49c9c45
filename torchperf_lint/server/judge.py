"""The projects that a session has open, and reports of texts in them. One thread at a time may call a Judge."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.adopt.sieve import sieve_for
from torchperf_lint.engine.files import CACHE_FOLDER, DEFAULT_EXCLUDE, left_out
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.jobs import Action, Job, Result, completed, line_lengths, requirements, run_on
from torchperf_lint.engine.mishaps import one_line
from torchperf_lint.engine.names import SUFFIXES
from torchperf_lint.engine.project_root import layout_at, root_of
from torchperf_lint.engine.project_snapshot import look_at, read_file
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.trial import offered
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.server.spacing import Spacing, can_be_spaced, told
from torchperf_lint.syntax.identity import digest_of, key_of
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchperf_lint.adopt.sieve import Sieve
    from torchperf_lint.config import Settings
    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.program import Program


class Cell(NamedTuple):
    """A cell of a notebook, which is a document of its own for an editor."""

    uri: str
    version: int | None


class Text(NamedTuple):
    """A text in an editor: the path that it belongs to (None: it was never saved) and its bytes."""

    path: str | None
    data: bytes
    cells: tuple[Cell, ...] | None = None  # of a notebook, whose bytes are its JSON


class Subject(NamedTuple):
    """What is asked of a text, ready for the engine, which sees it as `data`."""

    text: Text
    data: bytes
    path: str
    rules: tuple[Rule, ...]
    target: Target
    settings: Settings
    program: Program | None


class Judge:
    """Reports of texts; what is known of a project stays between the calls."""

    def __init__(self, *, cached: bool) -> None:
        """`cached`: the project's symbols are kept in its cache folder, as by the command line."""
        self._cache = CACHE_FOLDER if cached else None
        self._projects: dict[tuple[str, Hints], _Project] = {}
        self._texts: dict[str, bytes] = {}  # of open documents, by key, as their projects see them
        self._spacings: dict[str, Spacing] = {}  # of those that they see with rows between functions

    # -- what is open, and what changes --------------------------------------------------------------------------------

    def put(self, text: Text) -> None:
        """A document is open with this text: all projects see it in the place of its file."""
        if text.path is None or text.cells is not None:  # no file sees a notebook
            return
        key = key_of(text.path)
        self._texts[key] = data = self._spaced(key, text.data)
        for project in self._projects.values():
            project.set(key, data)

    def close(self, path: str) -> None:
        """A document is closed: its file counts again."""
        for open_ones in (self._texts, self._spacings):
            open_ones.pop(key_of(path), None)
        self.changed([path])

    def changed(self, paths: Iterable[str]) -> None:
        """Files have changed on disk, or are new or gone."""
        for path in paths:
            key = key_of(path)
            if os.path.splitext(path)[1].lower() not in SUFFIXES:
                requirements.cache_clear()
                line_lengths.cache_clear()
                if os.path.basename(path) == ".gitignore":
                    self._projects.clear()
            elif key not in self._texts:
                for project in self._projects.values():
                    project.set(key, _read(key))

    def forget(self) -> None:
        """Forget all projects."""
        self._projects.clear()

    # -- answers -------------------------------------------------------------------------------------------------------

    def report(self, text: Text, settings: Settings) -> FileReport:
        """The report of a text, with the findings that count; fixes are not tried yet, so some may not be made.

        Raise BadBaseline where the baseline that the settings name cannot be read.
        """
        subject = self._subject(text, settings, spaced=True)
        if subject is None:
            return FileReport()
        sieve, report = sieve_for(settings), self._whole(subject)
        return report if sieve.is_open else _sifted(subject, report, sieve)

    def _whole(self, subject: Subject) -> FileReport:
        settings, text = subject.settings, subject.text
        path, program = subject.path, subject.program
        if text.cells is not None:
            return told(self._run(subject, Action.CHECK).report, self._spacing_of(None))
        report = check_source(
            *(path, subject.data, subject.rules, subject.target, settings.hints),
            program=None if program is None else lambda: program,
            report_unused=settings.reports_unused_in(path),
            least=settings.min_confidence,
            held=settings.held,
        )
        if report.failure is not None and report.failure.row is not None and subject.data is not text.data:
            try:
                Source(path, text.data).parse()
            except Unreadable as error:
                return FileReport((), Failure(path, error.row, error.column, one_line(error.reason)))
            return self._whole(self._subject(text, settings) or subject)  # the rows between have broken it
        return told(report, self._spacing_of(path))

    def _spacing_of(self, own: str | None) -> Callable[[str | None], Spacing | None]:
        """The spacing of a path in a report; None stands for the report's `own`, which may have none."""

        def find(path: str | None) -> Spacing | None:
            asked = own if path is None else path
            return None if asked is None else self._spacings.get(key_of(asked))

        return find

    def offers(self, text: Text, settings: Settings, report: FileReport) -> FileReport:
        """The same report with those fixes only that can be made."""
        subject = self._subject(text, settings, spaced=True)
        if subject is None or text.cells is not None or not any(each.fix for each in report.diagnostics):
            return report
        path, program = subject.path, subject.program
        return offered(
            *(report, path, text.data, subject.rules, subject.target, settings.hints),
            in_project=program is not None,
            report_unused=settings.reports_unused_in(path),
            least=settings.min_confidence,
            line_length=line_lengths().of(path),
        )

    def fixed(self, text: Text, settings: Settings) -> bytes:
        """The text with all safe fixes made, as by `--fix`; raise BadBaseline as `report` does."""
        try:
            return self._fixed(text, settings)
        finally:
            self._subject(text, settings, spaced=True)  # the projects see the document as before

    def _fixed(self, text: Text, settings: Settings) -> bytes:
        subject = self._subject(text, settings)
        if subject is None:
            return text.data
        sieve = sieve_for(settings)
        spared: frozenset[tuple[str, int]] = frozenset()
        if not sieve.is_open:  # what does not count is not fixed
            whole = self._whole(subject)
            counting = set(_sifted(subject, whole, sieve).diagnostics)
            spared = frozenset((each.code, each.start) for each in whole.diagnostics if each not in counting)
        result = self._run(subject, Action.TRY, spared)
        return result.data if result.applied else text.data

    def _run(self, subject: Subject, action: Action, spared: frozenset[tuple[str, int]] = frozenset()) -> Result:
        settings, program = subject.settings, subject.program
        codes = tuple(rule.code for rule in subject.rules)
        unused = settings.reports_unused_in(subject.path)
        asked = (action, False, unused, True, settings.min_confidence, spared)
        job = Job(subject.path, codes, subject.target, settings.hints, *asked, held=settings.held)
        return run_on(job, subject.text.data, None if program is None else lambda: program)

    def _subject(self, text: Text, settings: Settings, *, spaced: bool = False) -> Subject | None:
        """None where the project's configuration leaves the file out; `spaced`: it is seen with rows between."""
        data = text.data
        if text.path is not None and not spaced:
            self._spacings.pop(key_of(text.path), None)
        if text.path is None:
            name = "untitled" if text.cells is None else "untitled.ipynb"
            return Subject(text, data, name, settings.rules_for(name), settings.target, settings, None)
        exclude = DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude
        if left_out(text.path, (*exclude, *settings.extend_exclude), settings.root) is not None:
            return None
        rules = settings.rules_for(text.path)
        target = settings.target
        if text.cells is None:  # else its program, not its JSON, tells what is asked
            target = completed(target, text.path, text.data, rules)
        if spaced and text.cells is None:
            data = self._spaced(key_of(text.path), data)
        return Subject(text, data, text.path, rules, target, settings, self._program(text, data, settings.hints))

    def _spaced(self, key: str, data: bytes) -> bytes:
        """The text as its projects see it."""
        if not can_be_spaced(data):
            self._spacings.pop(key, None)
            return data
        return self._spacings.setdefault(key, Spacing()).spaced(data)

    def _program(self, text: Text, data: bytes, hints: Hints) -> Program:
        assert text.path is not None
        key = key_of(text.path)
        place = root_of([key]), hints
        if place not in self._projects:
            snapshot = look_at(layout_at(place[0], {}), hints, self._cache)
            self._projects[place] = _Project(snapshot, self._texts)
        project = self._projects[place]
        if text.cells is None:
            project.set(key, data, is_new=True)
        project.program.settle(key)
        return project.program


def _sifted(subject: Subject, report: FileReport, sieve: Sieve) -> FileReport:
    """The report with the findings that count."""
    data = subject.text.data
    (result,) = sieve.sift([Result(subject.path, report, data, data)]).results
    return result.report


class _Project:
    """A project in memory: its Program, in which the texts of open documents stand for their files."""

    def __init__(self, snapshot: Snapshot, texts: dict[str, bytes]) -> None:
        self.program = snapshot.program(lambda key: texts[key] if key in texts else read_file(key))
        self.program.follow_edits()
        self._root = snapshot.layout.root
        self._digests = {key: facts.digest for key, facts in snapshot.facts.items()}
        for key, data in texts.items():
            self.set(key, data)

    def set(self, key: str, data: bytes | None, *, is_new: bool = False) -> None:
        """The file now has this content, or is gone; `is_new`: it counts even where the project leaves it out."""
        known = self._digests.get(key)
        if known is None and (data is None or not (is_new or self._takes(key))):
            return
        facts: FileSymbols | None = None
        if data is None:
            del self._digests[key]
        elif digest_of(data) == known:
            return
        else:
            facts = symbols_of(data)
            self._digests[key] = facts.digest
        self.program.replace(key, facts, data)

    def _takes(self, key: str) -> bool:
        return key.startswith(f"{self._root}/") and key.endswith(".py") and left_out(key, root=self._root) is None


def _read(key: str) -> bytes | None:
    try:
        return read_file(key)
    except OSError:
        return None
