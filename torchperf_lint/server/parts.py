"""What was judged, as the documents that an editor has for it: a text is one, a notebook has one for each cell."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from pygls import uris

from torchperf_lint.engine.edit_merge import BadEdits, apply_edits
from torchperf_lint.engine.findings import CellPath
from torchperf_lint.engine.notebooks import told_by_cell
from torchperf_lint.server.convert import Places, changes
from torchperf_lint.syntax.notebook import Notebook
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lsprotocol import types

    from torchperf_lint.engine.findings import Diagnostic, Fix
    from torchperf_lint.server.documents import Judged

_UNTITLED = "untitled.ipynb"


class Found(NamedTuple):
    """A finding: with the places of its document, and as it was judged."""

    told: Diagnostic
    judged: Diagnostic


class Why(NamedTuple):
    """Why a document could not be checked, with the place of the error."""

    row: int
    column: int
    reason: str


class Part(NamedTuple):
    """A document. Without a source it is no Python, or cannot be read."""

    uri: str
    version: int | None
    source: Source | None
    found: tuple[Found, ...] = ()
    failure: Why | None = None


class Edited(NamedTuple):
    """The edits of one document."""

    uri: str
    version: int | None
    edits: list[types.TextEdit]


class Parts:
    """The documents of a report, and the edits of its fixes."""

    def __init__(self, uri: str, judged: Judged, encoding: types.PositionEncodingKind | str | None) -> None:
        """`uri` is that of the text, or of the notebook around the cells; `encoding` counts columns."""
        self._uri = uri
        self._judged = judged
        self._encoding = encoding
        self._notebook = None if judged.text.cells is None else Notebook(_UNTITLED, judged.text.data)
        self.all = (self._whole(),) if self._notebook is None else tuple(self._cells(self._notebook))

    def part(self, uri: str) -> tuple[Part, Places] | None:
        """The document of that name and its places, if it can be read."""
        return next(((part, places) for part, places in self._readable() if part.uri == uri), None)

    def places(self, source: Source) -> Places:
        """The places of a document's source."""
        return Places(source, self._encoding)

    def uri_of(self, path: str) -> str:
        """The document that a path of the report means."""
        text = self._judged.text
        if isinstance(path, CellPath) and text.cells is not None:
            return text.cells[path.cell - 1].uri
        if path == (text.path or "untitled"):
            return self._uri
        return uris.from_fs_path(os.path.abspath(path)) or ""

    def fixed(self, fix: Fix) -> list[Edited]:
        """The edits of a fix, as it was judged."""
        if self._notebook is None:
            return [Edited(part.uri, part.version, places.edits(fix.edits)) for part, places in self._readable()]
        try:
            after = self._notebook.written(apply_edits(self._notebook.program, fix.edits))
        except BadEdits:
            return []
        return [] if after is None else self.changed(after)

    def changed(self, after: bytes) -> list[Edited]:
        """The edits that lead to `after`, as the bytes that were judged."""
        texts = {self._uri: after}
        if self._judged.text.cells is not None:
            cells = self._judged.text.cells
            texts = {cells[each.number - 1].uri: _bytes(each.source) for each in Notebook(_UNTITLED, after).cells}
        edited = (
            Edited(part.uri, part.version, changes(part.source, texts[part.uri], places))
            for part, places in self._readable()
            if part.source is not None
        )
        return [each for each in edited if each.edits]

    def _readable(self) -> Iterator[tuple[Part, Places]]:
        return ((each, self.places(each.source)) for each in self.all if each.source is not None)

    def _whole(self) -> Part:
        report, text, version = self._judged.report, self._judged.text, self._judged.version
        failure = report.failure
        why = None if failure is None else Why(failure.row or 1, failure.column or 1, failure.reason)
        try:
            source = Source(text.path or "untitled", text.data)
        except Unreadable:
            return Part(self._uri, version, None, (), why)
        return Part(self._uri, version, source, tuple(Found(each, each) for each in report.diagnostics), why)

    def _cells(self, notebook: Notebook) -> Iterator[Part]:
        report = self._judged.report
        found = told_by_cell(report, notebook)
        sources = {each.number: each.source for each in notebook.cells}
        failures = {place.cell: Why(place.row, place.column, reason) for place, reason in notebook.spoilt}
        if report.failure is not None and not failures:
            failures[min(sources, default=1)] = Why(1, 1, report.failure.reason)
        for number, cell in enumerate(self._judged.text.cells or (), 1):
            yield Part(
                cell.uri,
                cell.version,
                Source("cell", _bytes(sources[number]), "utf-8") if number in sources else None,
                tuple(Found(*each) for each in found.get(number, ())),
                failures.get(number),
            )


def _bytes(cell: str) -> bytes:
    return cell.encode(errors="replace")  # whatever its cookie says: the JSON around it is UTF-8


def notebook_of(cells: Iterable[str | None]) -> bytes:
    """The JSON of a notebook of these cells; None stands for one that is no Python."""
    kinds = ({"cell_type": "raw" if each is None else "code", "source": each or ""} for each in cells)
    return json.dumps({"cells": list(kinds)}).encode()
