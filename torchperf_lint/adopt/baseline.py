"""The baseline: a file of findings that are known, by fingerprints that survive moved lines.

A fingerprint holds the rule, the file, the text of the rows and the ordinal among findings that are alike in these: of
three equal findings two may be known, and then the third is new.
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.findings import BadConfidence, Confidence, Failure, checked_confidence
from torchperf_lint.engine.replacing import prepare_output, write_output
from torchperf_lint.report.identity import Fingerprints, well_formed
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchperf_lint.engine.findings import Diagnostic

VERSION = 1
"""Of the format; another way to make fingerprints needs another version."""

_MARK = re.compile(r"^[<|=>]{7}.*$", re.MULTILINE)
"""A line that a merge puts around what is in conflict; the rows between are those of baselines."""

_TOKEN = re.compile(r"""(?P<text>"(?:[^"\\]|\\.)*")|(?P<cut>".*)|(?P<number>\d+)|\S""", re.DOTALL)
"""Of JSON, whatever its blanks, also where the file ends inside a string."""

_KEYS = frozenset({'"version"', '"findings"', '"code"', '"fingerprint"'})
_BEGUN = '"":[{"code"'
_ENTRY = f'{_BEGUN}:"","fingerprint":'
"""The shape of a file's first entry, and of as much of it as shows that it is one."""


class BadBaseline(ValueError):
    """The baseline cannot be read or written; `failure` is one line for the user."""

    def __init__(self, path: str, reason: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.failure = Failure(path, row, column, reason)

    def named_in(self, source: str) -> BadBaseline:
        """The same error, which tells where the baseline is named as well."""
        path, row, column, reason, _ = self.failure
        return BadBaseline(path, f"{reason} (`baseline` of {source})", row, column)


class Known(NamedTuple):
    """A finding in the baseline; a `likely` one is not missed by a run that asks for proven ones only."""

    code: str
    fingerprint: str
    confidence: Confidence = Confidence.PROVEN


class Judged(NamedTuple):
    """A file that was judged: what was found, which codes could have been found, and whether the file was readable."""

    path: str
    data: bytes
    found: Sequence[Diagnostic]
    codes: frozenset[str]
    least: Confidence
    is_complete: bool

    def covers(self, known: Known) -> bool:
        """Whether the run would have found it, if it was still there."""
        return self.is_complete and known.code in self.codes and known.confidence.satisfies(self.least)


class Stale(NamedTuple):
    """Entries of one file that match nothing any more."""

    name: str
    codes: tuple[str, ...]


class Baseline:
    """The known findings by file. A file is named relative to the baseline's folder, with slashes."""

    def __init__(
        self, path: str, files: dict[str, tuple[Known, ...]] | None = None, lost: Failure | None = None
    ) -> None:
        """`lost` says why nothing is known of what the file holds, where it is to be written anew."""
        self.path = path
        self.lost = lost
        self._folder = os.path.dirname(os.path.realpath(path))
        self._files = files or {}

    def __len__(self) -> int:
        return sum(map(len, self._files.values()))

    def split(self, judged: Judged) -> tuple[list[Diagnostic], Stale | None]:
        """The findings that are not known, and the entries of the file that match none."""
        known = self._files.get(self._name(judged.path), ())
        if not known:
            return list(judged.found), None
        left = {each.fingerprint: each for each in known}
        new = [each for each, its in self._identified(judged) if left.pop(its.fingerprint, None) is None]
        stale = tuple(each.code for each in left.values() if judged.covers(each))
        return new, Stale(self._name(judged.path), stale) if stale else None

    def of_gone_files(self) -> list[Stale]:
        """The entries of files that are gone."""
        return [
            Stale(name, tuple(each.code for each in known))
            for name, known in self._files.items()
            if not os.path.lexists(os.path.join(self._folder, name))
        ]

    def with_findings_of(self, judged: Iterable[Judged]) -> Baseline:
        """A baseline that knows all findings of the judged files, and of others what this one knows of them.

        Entries that the run could not have found stay; those of files that are gone do not.
        """
        files = dict(self._files)
        for stale in self.of_gone_files():
            del files[stale.name]
        for each in judged:
            name = self._name(each.path)
            kept = [known for known in files.pop(name, ()) if not each.covers(known)]
            now = [known for _, known in self._identified(each)]
            if both := dict.fromkeys((*kept, *now)):
                files[name] = tuple(sorted(both, key=lambda known: (known.code, known.fingerprint)))
        return Baseline(self.path, files)

    def write(self) -> None:
        """Write the file, atomically; raise BadBaseline where it cannot be written."""
        try:
            write_output(self.path, "".join(self._text()).encode())
        except (OSError, ValueError) as error:
            raise BadBaseline(self.path, f"cannot be written: {_reason(error)}") from None

    def _text(self) -> Iterable[str]:
        """JSON with a line for each finding, so that a merge of two versions is one of lines."""
        yield f'{{\n  "version": {VERSION},\n  "findings": {{'
        before = "\n"
        for name in sorted(self._files):
            entries = ",\n".join(f"      {json.dumps(_plain(each))}" for each in self._files[name])
            yield f"{before}    {json.dumps(name)}: [\n{entries}\n    ]"
            before = ",\n"
        yield "\n  }\n}\n" if self._files else "}\n}\n"

    def _name(self, path: str) -> str:
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        try:
            relative = os.path.relpath(real, self._folder)
        except ValueError:  # another drive
            relative = real
        return well_formed(relative.replace(os.sep, "/"))

    def _identified(self, judged: Judged) -> Iterable[tuple[Diagnostic, Known]]:
        fingerprints, name = Fingerprints(Sources(lambda path: judged.data)), self._name(judged.path)
        for each in judged.found:
            yield each, Known(each.code, fingerprints.of(each, name), each.confidence)


def read(path: str, *, writes: bool = False) -> Baseline:
    """The baseline in a file; raise BadBaseline where there is none or it cannot be understood.

    With `writes`, it need not be there yet, and where it looks like one of ours it need not be understood: nothing is
    known then.
    """
    if writes and not os.path.exists(path):
        try:
            prepare_output(path)
        except (OSError, ValueError) as error:
            raise BadBaseline(path, f"cannot be written: {_reason(error)}") from None
        return Baseline(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise BadBaseline(path, "there is no such baseline; `--write-baseline` makes it") from None
    except (OSError, ValueError) as error:
        raise BadBaseline(path, f"cannot be read: {_reason(error)}") from None
    try:
        document = _document(path, data)
        baseline = Baseline(path, _files_of(path, document))
        if writes and not len(baseline) and document != {"version": VERSION, "findings": {}}:
            raise BadBaseline(path, "is no baseline: it has no entries but other data")
        return baseline
    except BadBaseline as error:
        _, row, column, reason, _ = error.failure
        if not _is_like_ours(data):
            advice = "; it is not overwritten: delete it, or name another file" if writes else ""
            raise BadBaseline(path, f"{reason}{advice}", row, column) from None
        if writes:
            return Baseline(path, lost=error.failure)
        raise BadBaseline(path, f"{reason}; `--write-baseline` writes it anew", row, column) from None


def _is_like_ours(data: bytes) -> bool:
    """Whether this is nothing, or has been a baseline: of another version, or damaged, as by a merge.

    Without an entry it is one only as a whole, or where it is cut off in the first one.
    """
    text = data.decode("utf-8-sig", errors="replace")
    head, findings, rest = _shape(text).partition('"findings":{')
    if not findings:
        return not text.strip()
    if _ENTRY in rest:
        return head.startswith('{"version":0,')
    return head == '{"version":0,' and (rest == "}}" or (rest.startswith(_BEGUN) and _ENTRY.startswith(rest)))


def _shape(text: str) -> str:
    """JSON without blanks, marks of conflicts and values: its keys that a baseline has, and its punctuation."""
    parts = []
    for token in _TOKEN.finditer(_MARK.sub("", text)):
        if token["text"]:
            parts.append(token["text"] if token["text"] in _KEYS else '""')
        else:
            parts.append('"' if token["cut"] else "0" if token["number"] else token[0])
    return "".join(parts)


def _document(path: str, data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise BadBaseline(path, "is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadBaseline(path, f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except (RecursionError, ValueError):
        raise BadBaseline(path, "is not JSON that can be read") from None


def _files_of(path: str, document: Any) -> dict[str, tuple[Known, ...]]:
    match document:
        case {"version": int(version)} if version != VERSION:
            raise BadBaseline(path, f"has the format {version}, and this program knows {VERSION}")
        case {"version": int(), "findings": dict(findings)}:
            return {name: _entries_of(path, name, entries) for name, entries in findings.items()}
    raise BadBaseline(path, 'is no baseline: it needs a "version" and "findings"')


def _entries_of(path: str, name: str, entries: Any) -> tuple[Known, ...]:
    found = []
    for entry in entries if isinstance(entries, list) else [None]:
        match entry:
            case {"code": str(code), "fingerprint": str(fingerprint), **rest}:
                try:
                    level = checked_confidence(rest.get("confidence", Confidence.PROVEN.value))
                except BadConfidence as error:
                    raise BadBaseline(path, f"{json.dumps(name)}: {error}") from None
                found.append(Known(code, fingerprint, level))
            case _:
                raise BadBaseline(path, f'{json.dumps(name)} needs a list of objects with "code" and "fingerprint"')
    return tuple(found)


def _plain(known: Known) -> dict[str, str]:
    plain = {"code": known.code, "fingerprint": known.fingerprint}
    return plain if known.confidence is Confidence.PROVEN else plain | {"confidence": known.confidence.value}


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def told_of(stale: Sequence[Stale], path: str, show: Callable[[str], str]) -> str:
    """One line about entries that match nothing any more; `show` makes a name printable."""
    count = sum(len(each.codes) for each in stale)
    files = [f"{show(each.name)}: {', '.join(sorted(set(each.codes)))}" for each in stale[:3]]
    more = [f"and {len(stale) - 3} more files"] if len(stale) > 3 else []
    entries = "1 entry that matches" if count == 1 else f"{count} entries that match"
    return (
        f"{show(path)} has {entries} no finding any more ({'; '.join(files + more)}); `--write-baseline` takes them out"
    )
