"""Stored reports of earlier runs, reused where a new run would give the same report.

A report depends on the file's bytes and path, its job, the versions and the length of lines that the project's files
state, this program and its interpreter. Where a rule queried the project, it also depends on what `Program` returned:
other files' bytes and their display paths, and answers of `SymbolIndex`, which are texts. All of these are stored with
the report (`model/project/dependencies.py`), those of memoized results included. The model is deterministic, so a
report whose dependencies are all unchanged is the report that a new run would make. A file that changed while it was
checked, or could not be read, has no stored report.

Each set of settings has two documents. `results` has the reports and the state of all project files in which they are
valid; if nothing changed, only it is read. `grounds` has the dependencies of each report, and is read only to find
which reports survive a change. Both contain one random mark, which shows that they belong together.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.json_codec import plain_report, report_of
from torchperf_lint.engine.store import Document, as_status, settled, status_of
from torchperf_lint.engine.tool_fingerprint import program_stamp
from torchperf_lint.syntax.identity import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torchperf_lint.engine.project_root import Layout
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.engine.runner import FileReport
    from torchperf_lint.engine.store import Status
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.project.dependencies import Dependencies, Question
    from torchperf_lint.model.project.symbol_index import SymbolIndex

MOST_SETTINGS = 4
"""The number of settings for which a project's reports are stored."""

LARGEST = 20_000_000
"""Bytes of the largest file whose report is stored; larger files have no symbols."""

_FORMAT = 4
_OF_FILE = "file "
"""As `OF_FILE` of the model, which a run where nothing has changed does not load."""


class Fingerprint(NamedTuple):
    """Everything that a report was made from: plain data that crosses processes."""

    digest: str
    status: Status | None  # the file's when it was opened; None: it would not show a later change
    stated: str | None  # the versions that were queried; None: none were
    line_length: int | None  # the length of lines that was queried; None: it was not
    dependencies: Dependencies | None  # None: the project was not queried


class Told(NamedTuple):
    """A stored report, with the file's bytes where it has diagnostics; the other fields are as in Fingerprint."""

    report: FileReport
    data: bytes
    stated: str | None
    line_length: int | None


class _Kept(NamedTuple):
    """A stored report; `job` names the job and `path` is the file's display name."""

    status: Status | None
    digest: str
    path: str
    job: str
    stated: str | None
    line_length: int | None
    alone: bool  # the project was not queried
    report: Any


class _State(NamedTuple):
    """The digests of all files of a project, each with its display name if that is not the usual one."""

    tokens: dict[str, str]
    statuses: dict[str, Status | None]


class Results:
    """The reports of one project under one set of settings, in one run."""

    def __init__(self, root: str, cache: str, settings: str) -> None:
        """`cache` is as for `Document`; `settings` names everything that holds for the whole run."""
        self._stamp = digest_of(f"{_FORMAT} {root} {settings} {program_stamp()}".encode())
        self._document = Document(root, cache, f"results-{self._stamp[:16]}")
        self._grounds = Document(root, cache, f"grounds-{self._stamp[:16]}")
        self._mark = ""
        self._kept: dict[str, _Kept] = {}
        self._state: _State | None = None  # None: no report depends on a project yet
        self._table = _Table()
        self._new: dict[str, _Kept] = {}
        self._new_grounds: dict[str, Dependencies] = {}
        self._looked_at = False
        self._changed = False  # memory differs from the documents

    def load(self) -> bool:
        """Read the stored reports; returns whether there are any."""
        document = self._document.load()
        try:
            if document is not None and document["stamp"] == self._stamp:
                self._kept = {str(key): _as_kept(plain) for key, plain in document["reports"].items()}
                self._state = None if document["state"] is None else _as_state(document["state"])
                self._mark = str(document["mark"])
        except (ValueError, KeyError, TypeError, AttributeError):
            self._kept, self._state, self._mark = {}, None, ""
        return bool(self._kept)

    # -- validity ------------------------------------------------------------------------------------------------------

    def told(self, key: str, path: str, job: str) -> Told | None:
        """The stored report of a file, if file and job are unchanged.

        It is valid if `is_alone`; otherwise `unchanged` or `outlive` must confirm it.
        """
        kept = self._kept.get(key)
        if kept is None or kept.path != path or kept.job != job:
            return None
        try:
            seen = _seen(key, kept.status, kept.digest)
            if seen is None or seen[1] != kept.digest:
                return None
            report = report_of(kept.report, path)
            data = _read(path) if report.diagnostics else b""
        except (OSError, ValueError):
            return None
        if data and digest_of(data) != kept.digest:
            return None
        if seen[0] != kept.status:
            self._kept[key] = kept._replace(status=seen[0])
            self._changed = True
        return Told(report, data, kept.stated, kept.line_length)

    def is_alone(self, key: str) -> bool:
        """Whether the stored report of the file depends on the file alone."""
        return self._kept[key].alone

    def holds(self, key: str) -> bool:
        """Whether the report of a file is still stored."""
        return key in self._kept

    def unchanged(self, layout: Layout) -> bool:
        """Whether the project is unchanged since all reports were valid; only files that may differ are read."""
        state = self._state
        if state is None or state.tokens.keys() - layout.keys:
            return False
        statuses: dict[str, Status | None] = {}
        for key in layout.keys:
            seen = _seen(key, state.statuses.get(key), state.tokens.get(key))
            token = state.tokens.get(key)
            if seen is None:
                if token is not None:
                    return False
                continue
            statuses[key], digest = seen
            if token is None or token != _token(digest, key, layout):
                return False
        if statuses != state.statuses:
            self._state = state._replace(statuses=statuses)
            self._changed = True
        return True

    def outlive(self, snapshot: Snapshot) -> None:
        """Drop the reports that are not valid in the current project."""
        self._looked_at = True
        layout, before = snapshot.layout, self._state
        tokens = {key: _token(facts.digest, key, layout) for key, facts in snapshot.facts.items()}
        self._state = _State(tokens, dict(snapshot.statuses))
        if before is not None and not self._table.load(self._grounds, self._stamp, self._mark):
            before = None
        if before is None:
            holding: set[str] = set()
        else:
            changed = {key for key in before.tokens.keys() | tokens.keys() if before.tokens.get(key) != tokens.get(key)}
            renamed = {key for key in changed if _name(before.tokens.get(key)) != _name(tokens.get(key))}
            holding = self._table.holding(changed, renamed, snapshot) if changed else set(self._table.entries)
        known = len(self._kept)
        self._kept = {key: kept for key, kept in self._kept.items() if key in tokens and (kept.alone or key in holding)}
        self._changed = self._changed or before != self._state or known != len(self._kept)

    # -- storing -------------------------------------------------------------------------------------------------------

    def add(self, key: str, path: str, job: str, report: FileReport, fingerprint: Fingerprint | None) -> None:
        """Store a new report if its dependencies are known and it is no internal error, which may not recur."""
        self._kept.pop(key, None)
        if fingerprint is None:
            return
        if fingerprint.dependencies is not None:
            self._new_grounds[key] = fingerprint.dependencies
        if report.failure is None or report.failure.row is not None:
            alone = fingerprint.dependencies is None
            queried = fingerprint.stated, fingerprint.line_length
            kept = _Kept(fingerprint.status, fingerprint.digest, path, job, *queried, alone, plain_report(report))
            self._new[key] = kept

    def save(self, snapshot: Snapshot | None) -> None:
        """Write new reports; `snapshot` is the project that they queried, if any did."""
        if snapshot is not None:
            if not self._looked_at:
                self.outlive(snapshot)
            for key in self._table.learn(self._new_grounds):
                self._new.pop(key, None)
        if not self._new and not self._changed:
            return
        tokens = {} if self._state is None else self._state.tokens
        for key, kept in self._new.items():
            if kept.alone or tokens.get(key, "").partition(" ")[0] == kept.digest:
                self._kept[key] = kept
        if snapshot is not None:
            self._mark = os.urandom(8).hex()
            resting = {key for key, kept in self._kept.items() if not kept.alone}
            if not self._grounds.save(self._table.plain(self._stamp, self._mark, resting, snapshot)):
                return
        reports = {key: list(each) for key, each in self._kept.items()}
        plain = {"stamp": self._stamp, "mark": self._mark, "state": _plain_state(self._state), "reports": reports}
        if self._document.save(plain):
            for name in ("results-", "grounds-"):
                self._document.prune(name, MOST_SETTINGS)


class _Table:
    """The dependencies of reports: queries and their answers, by file."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[Question, ...]] = {}
        self._cache: dict[Question, str] = {}  # stored answers
        self._told: dict[Question, str] = {}  # answers about files' texts, by this run's jobs
        self._now: dict[Question, str] = {}  # answers of the symbol index for this run's project
        self._symbol_index: SymbolIndex | None = None

    def load(self, document: Document, stamp: str, mark: str) -> bool:
        """Read the table that has the reports' mark; returns whether there is one."""
        plain = document.load()
        try:
            if plain is None or plain["stamp"] != stamp or plain["mark"] != mark:
                return False
            keys = [_text(key) for key in plain["keys"]]
            questions = [
                tuple(keys[each] if type(each) is int else _text(each) for each in q) for q in plain["questions"]
            ]
            answers = dict(zip(questions, map(_text, plain["answers"]), strict=True))
            entries = {
                keys[int(number)]: tuple(map(questions.__getitem__, row)) for number, row in plain["entries"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return False
        self.entries, self._cache = entries, answers
        return True

    def holding(self, changed: set[str], renamed: set[str], snapshot: Snapshot) -> set[str]:
        """The files whose reports have no changed dependency; `renamed` are those of the changed with another name."""
        about_files = [question for question in self._cache if question[0].startswith(_OF_FILE)]
        other = set(_changed(about_files, self._cache, changed, renamed, snapshot.hints))
        about_symbols = self._cache.keys() - about_files
        answers = self._answered(about_symbols, snapshot)
        other.update(question for question in about_symbols if answers[question] != self._cache[question])
        found = {key for key, asked in self.entries.items() if other.isdisjoint(asked)}
        self.entries = {key: self.entries[key] for key in found}
        return found

    def learn(self, learned: dict[str, Dependencies]) -> set[str]:
        """Add the dependencies of reports of this run; returns the files for which they are not known, after all."""
        known: dict[tuple[str, int], Question] = {}
        doubtful: set[Question] = set()
        for mark, _, new in learned.values():
            for number, question, answer in new:
                known[mark, number] = question
                if answer is not None and self._told.setdefault(question, answer) != answer:
                    doubtful.add(question)  # two processes have read different texts
        unknown = set()
        for key, (mark, asked, _) in learned.items():
            questions = tuple(known[mark, number] for number in asked if (mark, number) in known)
            if len(questions) < len(asked) or not doubtful.isdisjoint(questions):
                unknown.add(key)
            else:
                self.entries[key] = questions
        return unknown

    def plain(self, stamp: str, mark: str, resting: set[str], snapshot: Snapshot) -> dict[str, Any]:
        """The table of these reports as JSON data; texts that are files' keys are written as numbers."""
        self.entries = {key: entry for key, entry in self.entries.items() if key in resting}
        rows = {question: row for row, question in enumerate(sorted({*itertools.chain(*self.entries.values())}))}
        about_files = {question for question in rows if question[0].startswith(_OF_FILE)}
        numbers = {key: number for number, key in enumerate(sorted({*snapshot.facts, *self.entries}))}
        answers = {
            **self._answered(rows.keys() - about_files, snapshot),
            **{question: self._told.get(question, self._cache.get(question, "?")) for question in about_files},
        }
        return {
            "stamp": stamp,
            "mark": mark,
            "keys": list(numbers),
            "questions": [[q[0], *(numbers.get(each, each) for each in q[1:])] for q in rows],
            "answers": [answers[question] for question in rows],
            "entries": {numbers[key]: sorted(map(rows.__getitem__, asked)) for key, asked in self.entries.items()},
        }

    def _answered(self, questions: Iterable[Question], snapshot: Snapshot) -> dict[Question, str]:
        """The current answers of the symbol index, shortened; each query runs once, for one project per run."""
        if self._symbol_index is None:
            from torchperf_lint.model.project.symbol_index import SymbolIndex

            self._symbol_index = SymbolIndex(snapshot.facts, snapshot.layout.root)
        for question in questions:
            if question not in self._now:
                self._now[question] = _short(self._symbol_index.answer(question))
        return self._now


def _changed(
    questions: Iterable[Question],
    answers: Mapping[Question, str],
    changed: set[str],
    renamed: set[str],
    hints: Hints,
) -> Iterator[Question]:
    """The queries about these files that have other answers now."""
    by_file: dict[str, dict[Question, str]] = {}
    for question in questions:
        if question[1] in changed:
            by_file.setdefault(question[1], {})[question] = answers[question]
    if not by_file:
        return
    from torchperf_lint.model.project.parts import is_in_order

    for key, before in by_file.items():
        now = {} if key in renamed else _answers_now(key, before, hints)
        order = f"{_OF_FILE}order", key
        if order not in now or order not in before or not is_in_order(before[order], now[order]):
            yield from before
        else:
            yield from (each for each in before if before[each] != now[each] and each != order)


def _answers_now(key: str, questions: Iterable[Question], hints: Hints) -> dict[Question, str]:
    """The current answers of queries about a file; none where it cannot be parsed."""
    from torchperf_lint.model.facts import parts_of
    from torchperf_lint.syntax.source import Source, Unreadable

    try:
        parts = parts_of(Source(key, _read(key)), hints)
        return {each: parts.answer(each[0].removeprefix(_OF_FILE), *each[2:]) for each in questions}
    except (OSError, Unreadable, RecursionError):
        return {}


def _short(answer: object) -> str:
    """A digest of an answer."""
    text = repr(sorted(answer) if isinstance(answer, (set, frozenset)) else answer)
    return text if len(text) < 16 else digest_of(text.encode("utf-8", "surrogatepass"))[:16]


# -- files -------------------------------------------------------------------------------------------------------------


def _seen(key: str, status: Status | None, token: str | None) -> tuple[Status | None, str] | None:
    """A file's current status and digest; it is read only if its status differs from the known one."""
    try:
        now = status_of(os.stat(key))
        if now == status and token is not None:
            return status, token.partition(" ")[0]
        if now[0] > LARGEST:
            return None
        return settled(now), digest_of(_read(key))
    except OSError:
        return None


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _token(digest: str, key: str, layout: Layout) -> str:
    """A file's digest, with its display name where that is not its relative path."""
    shown = layout.name(key)
    return digest if shown == key.removeprefix(layout.here) else f"{digest} {shown}"


def _name(token: str | None) -> str | None:
    """The display name in a token."""
    return None if token is None else token.partition(" ")[2]


# -- plain data --------------------------------------------------------------------------------------------------------


def _as_kept(plain: Any) -> _Kept:
    match plain:
        case [status, str() as digest, str() as path, str() as job, *queried, bool() as alone, report]:
            match queried:
                case [(str() | None) as stated, (int() | None) as line_length]:
                    return _Kept(as_status(status), digest, path, job, stated, line_length, alone, report)
    raise ValueError("this is no report")


def _as_state(plain: Any) -> _State:
    tokens, statuses = {}, {}
    for key, (status, token) in plain.items():
        tokens[_text(key)], statuses[_text(key)] = _text(token), as_status(status)
    return _State(tokens, statuses)


def _plain_state(state: _State | None) -> Mapping[str, Any] | None:
    if state is None:
        return None
    return {key: [state.statuses.get(key), token] for key, token in state.tokens.items()}


def _text(plain: Any) -> str:
    if type(plain) is not str:
        raise ValueError("this is no text")
    return plain
