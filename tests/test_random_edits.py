"""Random edits of the fixture projects: a run with the cache of the runs before says what a run without one says."""

from __future__ import annotations

import ast
import json
import random
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from linting import PROJECT_FIXTURES, PROJECTS, few
from torchperf_lint.cli import main
from torchperf_lint.engine import store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASES = range(120)
EDITS = 7
_NUMBER = re.compile(r"\b\d+\b")
_NAME = re.compile(r"\b[a-z_]{3,}\b")


class Editor:
    """Edits the files of a folder at random, mostly so that they can still be parsed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.kinds: list[Callable[[Path], str | None]] = [
            *(self.append, self.append_call, self.rename, self.change_number, self.delete_top, self.insert_blank),
            *(self.copy_top, self.swap, self.delete_statement, self.change_import, self.change_name, self.new_file),
            *(self.insert_call, self.delete_file, self.rename_everywhere, self.change_flag, self.break_off),
            self.set_globally,
        ]

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.py"))

    def edit(self) -> str:
        """Make one edit; returns what it was."""
        while True:
            path, kind = self.random.choice(self.files()), self.random.choice(self.kinds)
            try:
                text = kind(path)
            except (IndexError, SyntaxError, ValueError):
                continue
            if text is not None and (not path.exists() or text != path.read_text()):
                path.write_text(text)
                return f"{kind.__name__} {path.relative_to(self.folder)}"
            if text is None:
                return f"{kind.__name__} {path.relative_to(self.folder)}"

    # -- edits --------------------------------------------------------------------------------------------------------

    def append(self, path: Path) -> str:
        return path.read_text() + f"\nx_{self.random.randrange(9)} = {self.random.randrange(9)}\n"

    def append_call(self, path: Path) -> str:
        other = self.random.choice(self.files())
        name = self.random.choice(self.names(other))
        calls = f"def user(x):\n    for y in x:\n        {name}(y)\n"
        return f"{path.read_text()}\nfrom {other.stem} import {name}\n\n\n{calls}"

    def insert_call(self, path: Path) -> str:
        lines = path.read_text().splitlines()
        name = self.random.choice(self.names(path))
        inner = [each for each in ast.walk(self.tree(path)) if isinstance(each, ast.stmt) and each.col_offset]
        chosen = self.random.choice(inner)
        lines.insert(chosen.lineno - 1, " " * chosen.col_offset + f"{name}(1)")
        return "\n".join(lines) + "\n"

    def rename(self, path: Path) -> str:
        name = self.random.choice(self.names(path))
        return path.read_text().replace(f"def {name}(", f"def {name}_{self.random.randrange(3)}(", 1)

    def rename_everywhere(self, path: Path) -> None:
        name = self.random.choice(self.names(path))
        new = f"{name}_{self.random.randrange(3)}"
        for each in self.files():
            each.write_text(re.sub(rf"\b{name}\b", new, each.read_text()))

    def change_number(self, path: Path) -> str:
        text = path.read_text()
        found = self.random.choice(list(_NUMBER.finditer(text)))
        return text[: found.start()] + str(self.random.randrange(5)) + text[found.end() :]

    def change_flag(self, path: Path) -> str:
        text = path.read_text()
        found = self.random.choice(list(re.finditer(r"\b(True|False|None|cuda|cpu)\b", text)))
        new = {"True": "False", "False": "True", "None": "True", "cuda": "cpu", "cpu": "cuda"}[found.group()]
        return text[: found.start()] + new + text[found.end() :]

    def change_name(self, path: Path) -> str:
        text = path.read_text()
        one, other = (self.random.choice(list(_NAME.finditer(text))) for _ in range(2))
        return text[: one.start()] + other.group() + text[one.end() :]

    def delete_top(self, path: Path) -> str:
        lines, chosen = path.read_text().splitlines(keepends=True), self.random.choice(self.tree(path).body)
        del lines[chosen.lineno - 1 : chosen.end_lineno]
        return "".join(lines)

    def copy_top(self, path: Path) -> str:
        other = self.random.choice(self.files())
        lines, chosen = other.read_text().splitlines(keepends=True), self.random.choice(self.tree(other).body)
        return path.read_text() + "\n" + "".join(lines[chosen.lineno - 1 : chosen.end_lineno]) + "\n"

    def swap(self, path: Path) -> str:
        lines, body = path.read_text().splitlines(keepends=True), self.tree(path).body
        number = self.random.randrange(len(body) - 1) if len(body) > 1 else body[1].lineno
        one, other = body[number : number + 2]
        first, second = lines[one.lineno - 1 : one.end_lineno], lines[other.lineno - 1 : other.end_lineno]
        between = lines[one.end_lineno : other.lineno - 1]
        return "".join([*lines[: one.lineno - 1], *second, *between, *first, *lines[other.end_lineno :]])

    def delete_statement(self, path: Path) -> str:
        lines = path.read_text().splitlines(keepends=True)
        simple = [
            each for each in ast.walk(self.tree(path)) if isinstance(each, (ast.Expr, ast.Assign, ast.Return, ast.If))
        ]
        chosen = self.random.choice(simple)
        lines[chosen.lineno - 1 : chosen.end_lineno] = [" " * chosen.col_offset + "pass\n"]
        return "".join(lines)

    def insert_blank(self, path: Path) -> str:
        lines = path.read_text().splitlines(keepends=True)
        place = self.random.choice(self.tree(path).body).lineno - 1
        return "".join([*lines[:place], self.random.choice(["\n", "\n\n", "# a comment\n"]), *lines[place:]])

    def change_import(self, path: Path) -> str:
        lines = path.read_text().splitlines(keepends=True)
        imports = [each for each in self.tree(path).body if isinstance(each, (ast.Import, ast.ImportFrom))]
        chosen = self.random.choice(imports)
        other = self.random.choice(self.files())
        new = self.random.choice(
            [
                f"from {other.stem} import *\n",
                f"from . import {other.stem}\n",
                f"import {other.stem} as renamed\n",
                "\n",
            ]
        )
        lines[chosen.lineno - 1 : chosen.end_lineno] = [new]
        return "".join(lines)

    def set_globally(self, path: Path) -> str:
        name = self.random.choice(self.names(path))
        return path.read_text() + f"\ndef sets():\n    global {name}\n    {name} = None\n"

    def new_file(self, path: Path) -> None:
        other = self.random.choice(self.names(path))
        text = f"import torch\nfrom {path.stem} import {other}\n\n\ndef train(loader):\n    for x in loader:\n        "
        name = f"added_{self.random.randrange(3)}.py"
        path.with_name(name).write_text(f"{text}{other}(x).sum().backward()\n")

    def delete_file(self, path: Path) -> None:
        if len(self.files()) > 2:
            path.unlink()

    def break_off(self, path: Path) -> str:
        text = path.read_text()
        return text if self.random.random() < 0.8 else text[: self.random.randrange(len(text))]

    # -- what there is ------------------------------------------------------------------------------------------------

    def tree(self, path: Path) -> ast.Module:
        return ast.parse(path.read_text())

    def names(self, path: Path) -> list[str]:
        """The names of the functions and classes of a file."""
        defined = (ast.FunctionDef, ast.ClassDef)
        return [each.name for each in ast.walk(self.tree(path)) if isinstance(each, defined)]


def write_notebook(path: Path) -> None:
    """A notebook of the program's text beside it, which is judged between the files."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": path.read_text()}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.with_suffix(".ipynb").write_text(json.dumps(notebook))


@pytest.mark.parametrize("seed", few(CASES, 40))
def test_no_edit_is_missed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(store, "SETTLED", 10**12)

    def run(*arguments: str) -> str:
        main([*arguments, "--output-format", "json", "--select", "ALL", "-j", "1"])
        return capfd.readouterr().out

    editor = Editor(folder, seed)
    for name in editor.random.sample(PROJECTS, editor.random.choice([1, 1, 2])):
        for path in sorted((PROJECT_FIXTURES / name).rglob("*.py")):
            place = folder / path.relative_to(PROJECT_FIXTURES / name)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    if seed % 4 == 0:
        write_notebook(editor.random.choice(editor.files()))
    assert run() == run("--no-cache")
    done = []
    for _ in range(EDITS):
        done.append(editor.edit())
        assert run() == run("--no-cache"), done
