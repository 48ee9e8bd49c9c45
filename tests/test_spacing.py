"""Rows between the functions of a text that is typed: the text means the same, and places lead back to the document."""

from __future__ import annotations

import ast
import random
import re
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint.server import spacing
from torchperf_lint.server.judge import Judge, Text
from torchperf_lint.server.options import Options
from torchperf_lint.server.spacing import Spacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = b"""\
import torch
import numpy

size = 1
# about the class
class Net(Base):
    rate = 1

    def one(self):
        return 1
    # of the other one
    @property
    def two(self):
        text = '''
# a text'''
    def three(self): pass

first = 2
last = 3
"""


def test_rows_stand_between_definitions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spacing, "GAP", 1)
    expected = TEXT
    for begin in (b"# about", b"\n    def one", b"    # of", b"    def three", b"\nfirst"):
        expected = expected.replace(begin, b"#\n" + begin)
    assert Spacing().spaced(TEXT) == expected


def solid(rows: list[bytes]) -> list[tuple[int, bytes]]:
    """The rows that say something, with their numbers."""
    return [(number, row) for number, row in enumerate(rows, 1) if row.strip() not in (b"", b"#")]


def parsed(text: bytes) -> str | None:
    """The tree of a text, without the rows between that may stand in its constants; None if it cannot be parsed."""
    try:
        return re.sub(r"\\n|#", "", ast.dump(ast.parse(text)))
    except (SyntaxError, ValueError):
        return None


def edits(text: bytes, chance: random.Random) -> Iterator[bytes]:
    """Texts that follow from each other by typing, pasting and deleting rows."""
    rows = text.splitlines(keepends=True)
    while rows:
        yield b"".join(rows)
        at, kind = chance.randrange(len(rows)), chance.random()
        if kind < 0.4:
            rows[at:at] = [rows[at]] * chance.randrange(1, 20)
        elif kind < 0.7:
            rows[at : at + chance.randrange(1, 30)] = []
        else:
            rows[at] = rows[at].rstrip() + chance.choice([b" \\\n", b' """\n', b"  # x\n", b"\n", b"(\n", b"\r\n"])


@pytest.mark.parametrize("seed", range(20))
def test_a_spaced_text_means_the_same_and_its_places_lead_back(seed: int) -> None:
    chance = random.Random(seed)
    path = chance.choice(sorted((ROOT / "fixtures" / "workloads").rglob("*.py")))
    session = Spacing()
    for text, _ in zip(edits(chance.choice([TEXT, path.read_bytes()]), chance), range(40), strict=False):
        if not spacing.can_be_spaced(text):
            continue
        spaced = session.spaced(text)
        assert parsed(spaced) == parsed(text)
        own, theirs = solid(text.splitlines(keepends=True)), solid(spaced.splitlines(keepends=True))
        assert [row for _, row in theirs] == [row for _, row in own]
        assert [session.row(number) for number, _ in theirs] == [number for number, _ in own]
        for (before, row), (after, _) in zip(own, theirs, strict=True):
            start = sum(map(len, text.splitlines(keepends=True)[: before - 1]))
            there = sum(map(len, spaced.splitlines(keepends=True)[: after - 1]))
            assert session.offset(there) == start
            assert session.offset(there + len(row.rstrip())) == start + len(row.rstrip())
        assert session.offset(len(spaced)) == len(text)


def test_what_stands_below_a_change_keeps_its_rows_until_the_room_is_taken() -> None:
    session = Spacing()
    below = session.spaced(TEXT).index(b"last = 3")
    for count in range(1, spacing.GAP + 1):
        text = TEXT.replace(b"        return 1\n", b"        pass\n" * count + b"        return 1\n")
        spaced = session.spaced(text)
        assert spaced[: spaced.index(b"last = 3")].count(b"\n") == session_rows(TEXT, below)
    text = TEXT.replace(b"        return 1\n", b"        pass\n" * (count + 1) + b"        return 1\n")
    spaced = session.spaced(text)
    assert spaced == Spacing().spaced(text)


def session_rows(text: bytes, place: int) -> int:
    return Spacing().spaced(text)[:place].count(b"\n")


@pytest.mark.parametrize(
    "data",
    [
        b"# -*- coding: latin-1 -*-\nx = 1\n",
        b"\xef\xbb\xbfx = 1\n",
        b"x = 1\r\ny = 2\n",
        b"x = 1\ry = 2\r",
        b"x = 1\n" * spacing.LARGEST,
    ],
)
def test_some_texts_are_left_as_they_are(data: bytes) -> None:
    assert not spacing.can_be_spaced(data)


STEP = """\
import torch


def unused():
    return 1


def train(model, loader, optimizer):
    for x in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def test_findings_fixes_and_errors_are_told_in_the_rows_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(STEP)
    options = Options(isolated=True, select=("ALL",))
    judge, plain = Judge(cached=False), Judge(cached=False)
    for text in (
        STEP,
        STEP.replace("    return 1\n", "    x = 1\n\n    return x\n"),
        STEP.replace("return 1", "return ("),
    ):
        data = text.encode()
        judge.put(Text(str(path), data))
        reports = [judge.report(Text(str(path), data), options.settings(str(path)))]
        path.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spacing, "GAP", 0)
            reports.append(plain.report(Text(str(path), data), options.settings(str(path))))
            plain.forget()
        assert reports[0] == reports[1]
        assert bool(reports[0].diagnostics) != bool(reports[0].failure)
        fixed = judge.fixed(Text(str(path), data), options.settings(str(path)))
        assert b"#\n" not in fixed
        assert judge.report(Text(str(path), data), options.settings(str(path))) == reports[0]


def test_other_documents_are_told_in_their_rows_also_where_the_own_one_is_left_as_it_is(tmp_path: Path) -> None:
    helper, step = tmp_path / "helper.py", tmp_path / "train.py"
    helper.write_text("# coding: utf-8\ndef show(loss):\n    print(loss.item())\n")
    step.write_text(
        STEP.replace("print(loss.item())", "show(loss)").replace("import torch\n", "from helper import show\n")
    )
    judge = Judge(cached=False)
    options = Options(isolated=True, select=("ALL",)).settings(str(helper))
    for path in (step, helper):
        judge.put(Text(str(path), path.read_bytes()))
    judge.report(Text(str(step), step.read_bytes()), options)
    found = judge.report(Text(str(helper), helper.read_bytes()), options).diagnostics
    rows = {each.row for finding in found for each in finding.because if each.path == str(step)}
    assert rows
    assert max(rows) <= len(step.read_text().splitlines())
