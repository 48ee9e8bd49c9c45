"""Random edits in an editor: after each, the reports are those of a judge that sees the project for the first time."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from linting import PROJECT_FIXTURES, PROJECTS, few
from test_random_edits import Editor
from torchperf_lint.model import bounds
from torchperf_lint.server import spacing
from torchperf_lint.server.judge import Cell, Judge, Text
from torchperf_lint.server.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_lint.engine.runner import FileReport

OPTIONS = Options(isolated=True, select=("ALL",))
EDITS = 8


class Session:
    """A judge with documents in an editor, beside files that change on disk."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.editor = Editor(folder, seed)
        self.random = self.editor.random
        self.judge = Judge(cached=False)
        self.known: dict[Path, bytes] = {}
        self.open: set[Path] = set()

    def see(self) -> None:
        """Tell the judge what has changed in the folder."""
        now = {path: path.read_bytes() for path in self.editor.files()}
        for path in sorted({*now, *self.known}):
            if now.get(path) == self.known.get(path):
                continue
            if path in now and path in self.open:
                self.judge.put(Text(str(path), now[path]))
            elif path in self.open:
                self.open.remove(path)
                self.judge.close(str(path))
            else:
                self.judge.changed([str(path)])
        self.known = now

    def type_something(self) -> None:
        """Change a few characters of a document, as one who types does."""
        path = self.random.choice(self.editor.files())
        text = path.read_text()
        place = self.random.randrange(len(text) + 1)
        new = self.random.choice(["x", " ", "\n", ".item()", "()", "#", '"', "\\", ":", "    ", ""])
        path.write_text(text[:place] + new + text[place + self.random.choice([0, 0, 1, 3]) :])

    def compare(self) -> None:
        """Hold the reports of some files, and of a notebook of one's text, against those of a new judge."""
        paths = self.editor.files()
        asked = self.random.sample(paths, min(2, len(paths)))
        fresh = Judge(cached=False)
        for path in asked:
            self.open.add(path)
            found = report(self.judge, path, self.known[path])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(spacing, "GAP", 0)
                assert found == report(fresh, path, self.known[path]), path.name
        if self.random.random() < 0.1:
            path = asked[0].with_suffix(".ipynb")
            text = Text(str(path), notebook(self.known[asked[0]].decode()), (Cell("one", 1),))
            settings = OPTIONS.settings(str(path))
            assert self.judge.report(text, settings) == fresh.report(text, settings), path.name


def report(judge: Judge, path: Path, data: bytes) -> FileReport:
    text, settings = Text(str(path), data), OPTIONS.settings(str(path))
    judge.put(text)
    found = judge.offers(text, settings, judge.report(text, settings))
    assert found.failure is None or found.failure.row is not None, found.failure
    return found


def notebook(source: str) -> bytes:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


@pytest.mark.parametrize("seed", few(range(120), 40))
def test_no_edit_is_missed(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 5 == 0:
        monkeypatch.setattr(bounds, "MOST_BYTES_REPLACED", 500)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    session = Session(folder, seed)
    for name in session.random.sample(PROJECTS, session.random.choice([1, 1, 2])):
        for path in sorted((PROJECT_FIXTURES / name).rglob("*.py")):
            place = folder / path.relative_to(PROJECT_FIXTURES / name)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    session.known = {path: path.read_bytes() for path in session.editor.files()}
    session.compare()
    for _ in range(EDITS):
        if session.random.random() < 0.5:
            session.type_something()
        else:
            session.editor.edit()
        session.see()
        if session.random.random() < 0.8:
            session.compare()
