"""Notebooks in the language server, by a real client: findings and fixes of cells that are judged as one program."""

from __future__ import annotations

import json

import pytest
from lsprotocol import types

from test_notebooks import FIXED, LOOP, SETUP
from test_server import Editor, applied, client, editor, whole
from torchperf_lint.cli import main
from torchperf_lint.config import Settings
from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.server.documents import Judged
from torchperf_lint.server.judge import Cell, Text
from torchperf_lint.server.parts import Parts, notebook_of
from torchperf_lint.syntax.notebook import Notebook

__all__ = ["client", "editor"]  # fixtures

NAME = "train.ipynb"
CODE, TEXT = types.NotebookCellKind.Code, types.NotebookCellKind.Markup


class Pad:
    """A notebook that is open in an editor."""

    def __init__(self, editor: Editor, uri: str | None = None) -> None:
        self.client = editor.client
        self.editor = editor
        self.uri = editor.uri(NAME) if uri is None else uri
        self.version = 1
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}

    def cell(self, name: str) -> str:
        return f"vscode-notebook-cell:{self.uri.partition(':')[2]}#{name}"

    def made(self, name: str, text: str, language: str) -> tuple[types.NotebookCell, types.TextDocumentItem]:
        uri = self.cell(name)
        self.texts[name], self.versions[name] = text, 1
        kind = TEXT if language == "markdown" else CODE
        return types.NotebookCell(kind, uri), types.TextDocumentItem(uri, language, 1, text)

    def open(self, **cells: str | tuple[str, str]) -> None:
        made = [self.made(name, *((each, "python") if isinstance(each, str) else each)) for name, each in cells.items()]
        notebook = types.NotebookDocument(self.uri, "jupyter-notebook", self.version, [each for each, _ in made])
        self.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(notebook, [each for _, each in made])
        )

    def change(self, name: str, text: str) -> None:
        self.texts[name] = text
        self.versions[name] += 1
        document = types.VersionedTextDocumentIdentifier(version=self.versions[name], uri=self.cell(name))
        content = types.NotebookDocumentCellContentChanges(
            document, [types.TextDocumentContentChangeWholeDocument(text)]
        )
        self.changed(types.NotebookDocumentCellChanges(text_content=[content]))

    def put(self, start: int, deleted: list[str], **cells: str) -> None:
        made = [self.made(name, text, "python") for name, text in cells.items()]
        array = types.NotebookCellArrayChange(start, len(deleted), [each for each, _ in made])
        gone = [types.TextDocumentIdentifier(self.cell(name)) for name in deleted]
        structure = types.NotebookDocumentCellChangeStructure(array, [each for _, each in made], gone)
        self.changed(types.NotebookDocumentCellChanges(structure=structure))

    def changed(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        document = types.VersionedNotebookDocumentIdentifier(version=self.version, uri=self.uri)
        event = types.NotebookDocumentChangeEvent(cells=cells)
        self.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(document, event))

    async def until(self, **codes: list[str | None]) -> list[types.Diagnostic]:
        """The diagnostics of cells, once they have these codes."""
        found = []
        for name, wanted in codes.items():
            found += await self.editor.until_uri(self.cell(name), wanted)
        return found

    async def actions(self, name: str, *only: str) -> list[types.CodeAction]:
        return await self.editor.actions_of(self.cell(name), whole(self.texts[name]), *only)

    def applied(self, action: types.CodeAction) -> dict[str, str]:
        """The texts of the cells that the action changes."""
        assert action.edit is not None
        after = {}
        for change in action.edit.document_changes or []:
            assert isinstance(change, types.TextDocumentEdit)
            (name,) = (each for each in self.texts if self.cell(each) == change.text_document.uri)
            assert change.text_document.version == self.versions[name]
            edits = [each for each in change.edits if isinstance(each, types.TextEdit)]
            after[name] = applied(self.texts[name], edits)
        return after


@pytest.mark.asyncio
async def test_cells_are_judged_as_one_program(editor):
    await editor.start()
    pad = Pad(editor)
    pad.open(words=("# Ünï", "markdown"), shell=("ls", "shellscript"), setup=SETUP, loop=f"%time\n{LOOP}")
    (found,) = await pad.until(loop=["TPL203"], setup=[], words=[], shell=[])
    assert found.range == types.Range(types.Position(2, 13), types.Position(2, 26))
    assert found.message.startswith("`inputs.cuda()` makes the host wait")
    assert {each.location.uri for each in found.related_information} == {pad.cell("loop")}
    pad.change("setup", f"{SETUP}\n\n\ndef on_gpu(data):\n    return data.cuda()\n")
    pad.change("loop", LOOP.replace("inputs.cuda()", "on_gpu(inputs)"))
    (found,) = await pad.until(loop=[], setup=["TPL203"])
    assert pad.cell("loop") in {each.location.uri for each in found.related_information}
    place = types.HoverParams(types.TextDocumentIdentifier(pad.cell("setup")), found.range.start)
    assert "train.ipynb:cell 4, row 2" in (await editor.client.text_document_hover_async(place)).contents.value


@pytest.mark.asyncio
async def test_what_the_command_line_says_is_what_the_cells_say(editor, capsys):
    await editor.start()
    pad = Pad(editor)
    pad.open(setup=SETUP, loop=LOOP)
    (found,) = await pad.until(loop=["TPL203"])
    cells = [{"cell_type": "code", "source": each} for each in (SETUP, LOOP)]
    (editor.folder / NAME).write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert main(["--output-format", "concise", "--no-cache", str(editor.folder / NAME)]) == 1
    row, column = found.range.start.line + 1, found.range.start.character + 1
    assert f"{NAME}:cell 2:{row}:{column}: TPL203" in capsys.readouterr().out


@pytest.mark.asyncio
async def test_fixes_change_cells(editor):
    await editor.start()
    pad = Pad(editor)
    twice = FIXED.replace("inputs.cuda", "targets.cuda").replace("inputs =", "targets =")
    pad.open(setup=SETUP, loop=LOOP, again=twice.replace("non_blocking=True", ""))
    await pad.until(loop=["TPL203"], again=["TPL203"])
    (quick,) = await pad.actions("loop", "quickfix")
    assert (quick.title, quick.is_preferred) == ("Copy without waiting (TPL203)", True)
    assert pad.applied(quick) == {"loop": FIXED}
    (every,) = await pad.actions("setup", "source.fixAll.torchperf-lint")
    assert pad.applied(every) == {"loop": FIXED, "again": twice}
    assert not await pad.actions("setup", "quickfix")


@pytest.mark.asyncio
async def test_cells_come_and_go(editor):
    await editor.start()
    pad = Pad(editor)
    pad.open(loop=LOOP)
    await pad.until(loop=["TPL203"])
    pad.put(0, [], setup=SETUP, broken="def (")
    await pad.until(loop=["TPL203"], broken=[None])
    assert "not checked: syntax error" in (await pad.until(broken=[None]))[0].message
    pad.put(1, ["broken"])
    await pad.until(loop=["TPL203"], broken=[])
    cells = [types.TextDocumentIdentifier(pad.cell(name)) for name in ("setup", "loop")]
    notebook = types.NotebookDocumentIdentifier(pad.uri)
    editor.client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(notebook, cells))
    await pad.until(loop=[])
    assert not await pad.actions("loop")


@pytest.mark.asyncio
async def test_the_project_and_its_configuration_count(editor):
    (editor.folder / "pyproject.toml").write_text(
        "[tool.torchperf-lint.per-file-ignores]\n'*.ipynb' = ['TPL203']\n", encoding="utf-8"
    )
    await editor.start()
    pad = Pad(editor)
    text = LOOP.replace("inputs.cuda()", "on_gpu(inputs)")
    pad.open(setup=SETUP, loop=f"from transfer import on_gpu\n{text}\n    print(loss.item())\n    loss.cuda()")
    await pad.until(loop=["TPL105"])
    unsaved = Pad(editor, "untitled:Untitled-1.ipynb")
    unsaved.open(loop=LOOP)
    await unsaved.until(loop=["TPL203"])


@pytest.mark.asyncio
async def test_saving_counts_for_notebooks_too(editor):
    await editor.start(options={"run": "onSave", "delay": 0})
    pad = Pad(editor)
    pad.open(setup=SETUP, loop=LOOP)
    await pad.until(loop=["TPL203"])
    pad.change("loop", "pass")
    assert not await pad.actions("loop")
    assert await pad.until(loop=["TPL203"])
    notebook = types.NotebookDocumentIdentifier(pad.uri)
    editor.client.notebook_document_did_save(types.DidSaveNotebookDocumentParams(notebook))
    await pad.until(loop=[])


@pytest.mark.asyncio
async def test_columns_and_cookies_in_cells(editor):
    await editor.start()
    pad = Pad(editor)
    loop = LOOP.replace("    inputs = ", "    name = '𝔸'; inputs = ")
    pad.open(setup=SETUP, loop=f"# -*- coding: latin-1 -*-\nname = 'é'\n{loop}")
    (found,) = await pad.until(loop=["TPL203"])
    row = loop.splitlines()[1]
    units = len(row[: row.index("inputs.cuda")].encode("utf-16-le")) // 2
    assert found.range.start == types.Position(3, units)


def test_a_fix_of_several_cells_edits_each_and_none_loses_a_magic() -> None:
    data = notebook_of(["%time\na = 1", None, "b = 2"])
    cells = (Cell("one", 1), Cell("words", None), Cell("two", 3))
    parts = Parts("untitled:a", Judged(7, Text(None, data, cells), Settings(), FileReport()), None)
    program = Notebook("untitled.ipynb", data).program

    def edited(*replaced: tuple[bytes, bytes]) -> list[tuple[str, int | None, list[tuple[int, str]]]]:
        edits = tuple(Edit(at := program.index(old), at + len(old), new) for old, new in replaced)
        return [
            (each.uri, each.version, [(edit.range.start.line, edit.new_text) for edit in each.edits])
            for each in parts.fixed(Fix("change", Safety.SAFE, edits))
        ]

    assert edited((b"a = 1", b"a = 10"), (b"b = 2", b"b = 20")) == [
        ("one", 1, [(1, "a = 10")]),
        ("two", 3, [(0, "b = 20")]),
    ]
    assert edited((program[: program.index(b"a = 1")], b"")) == []
