"""The model without rules: `reveal(x)  # revealed: tensor on cuda, in hot loop` in the files of fixtures/model/."""

from __future__ import annotations

import ast
import difflib
import functools
import io
import re
import tokenize
from pathlib import Path

import pytest

from expectations import read_comments
from linting import ROOT, label
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model import Model
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.reveal import reveal_all
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source

FILES = sorted((ROOT / "fixtures" / "model").rglob("*.py"))
ENOUGH_FACTS = 150
_REVEALED = re.compile(r"#\s*revealed:\s*(.+?)\s*(?:#|$)")


def revealed_in(path: Path) -> dict[int, str]:
    """What the model says at each row of a fixture that asks."""
    directives = read_comments(path.read_text(encoding="utf-8")).directives
    hints = Hints(directives.options.get("hot-functions", ()), directives.options.get("loader-names", ()))
    source = Source(path.name, path.read_bytes())
    return reveal_all(Model(AnalyzedFile(source, index_of(source.parse(), source.path), hints), directives.target))


@pytest.mark.parametrize("path", FILES, ids=label)
def test_reveals(path: Path) -> None:
    wanted, revealed = _wanted(path), revealed_in(path)
    assert revealed == wanted, f"{label(path)}:\n" + "\n".join(
        difflib.ndiff(_lines(wanted), _lines({row: str(text) for row, text in revealed.items()}))
    )


@pytest.mark.parametrize("path", FILES, ids=label)
def test_every_reveal_has_its_comment(path: Path) -> None:
    calls = {
        node.lineno
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reveal"
    }
    assert calls == set(_wanted(path)), "a reveal without a comment, or a comment without a reveal, in these rows"


def test_there_are_enough_facts() -> None:
    facts = sum(len(_wanted(path)) for path in FILES)
    assert facts >= ENOUGH_FACTS, f"the fixtures of the model state {facts} facts"


@functools.cache
def _wanted(path: Path) -> dict[int, str]:
    """Row to text; a comment belongs to the row where it stands."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    comments = ((token.start[0], _REVEALED.search(token.string)) for token in tokens if token.type == tokenize.COMMENT)
    return {row: match[1] for row, match in comments if match}


def _lines(facts: dict[int, str]) -> list[str]:
    return [f"row {row}: {text}" for row, text in sorted(facts.items())]


def test_a_loop_inside_the_step_is_named_by_what_it_binds() -> None:
    code = b"""
def train(model, loader, optimizer):
    for batch in loader:
        for i, (a, b) in enumerate(batch):
            reveal(a)
        model(batch).backward()
        optimizer.step()
"""
    source = Source("train.py", code)
    model = Model(
        AnalyzedFile(source, index_of(source.parse(), source.path), Hints((), ())), read_comments("").directives.target
    )
    hot_path = model.hot_path_of(model.calls_named("reveal")[0].statement)
    assert hot_path is not None
    assert hot_path.where.startswith("for each `i, (a, b)` ")
