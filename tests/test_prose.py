"""What is said of code changes no finding: words in comments and docstrings neither silence a rule nor wake one."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

import pytest

from linting import ROOT, RULE_FIXTURES, few, fixture_paths, label, load_fixture

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_lint.engine.findings import Diagnostic

FOLDERS = ("rules", "idioms", "knowledge", "model")
JUDGED = [path for path in fixture_paths(RULE_FIXTURES) if path.name.startswith(("alias", "near_miss", "gate", "said"))]
NOT_SAID = ("noqa", "torchperf", "expect", '"', "'", "\\", "%", "{")  # suppressions, and what ends a string


@functools.cache
def prose() -> bytes:
    """A comment and a string that hold every word that rules, idioms, knowledge and the model look for."""
    words: dict[str, None] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / "torchperf_lint" / folder).rglob("*.py")):
            tree = ast.parse(path.read_bytes())
            docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                    words.update((word, None) for word in node.value.split() if word.isascii() and word.isprintable())
    said = [word for word in words if not any(part in word for part in NOT_SAID)]
    rows = [" ".join(said[start : start + 20]) for start in range(0, len(said), 20)]
    comment, text = "".join(f"# Say {row}.\n" for row in rows), "\n".join(rows)
    return f'\n\n{comment}"""Say {text}."""\n'.encode()


def told(found: tuple[Diagnostic, ...]) -> list[tuple[object, ...]]:
    """What is compared of findings: where, what is said, and how safe the fix is."""
    return [
        (each.row, each.column, each.code, each.message, each.because, each.fix and each.fix.safety) for each in found
    ]


@pytest.mark.parametrize("path", few(JUDGED, 24), ids=label)
def test_prose_changes_no_finding(path: Path) -> None:
    fixture = load_fixture(path)
    assert told(fixture.check(fixture.data + prose())) == told(fixture.check())
